package org.ep4j.cuda.backend;

/** The region of another rank as kernels of this one see it. */
public interface PeerRegion extends AutoCloseable {
  /** First byte. */
  long address();

  /** Lets go of it. */
  @Override
  void close();
}
