package org.ep4j.cuda.backend.direct;

import org.ep4j.cuda.backend.PeerRegion;

/**
 * The region of another rank, as this rank reaches it.
 *
 * @param address first byte, for kernels of this rank
 * @param unmap gives it back
 */
record MappedRegion(long address, Runnable unmap) implements PeerRegion {
  @Override
  public void close() {
    unmap.run();
  }
}
