package org.ep4j.cuda.backend;

/** The region of another rank as mapped for kernels of this rank. */
public interface PeerRegion extends AutoCloseable {
  /** First byte. */
  long address();

  /** Unmaps the region. */
  @Override
  void close();
}
