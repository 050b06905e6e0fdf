package org.ep4j.cuda.backend;

import java.time.Duration;

/**
 * The open backend of one buffer on one rank. It serves while a buffer is opened and closed;
 * between those, operations use addresses alone. Used by one thread at a time.
 */
public interface Backend extends AutoCloseable {
  /** Name as in {@link org.ep4j.BufferConfig#backend()}. */
  String name();

  /** The ranks and their devices. */
  BackendWorld world();

  /** This rank. */
  default int rank() {
    return world().meeting().rank();
  }

  /** Number of ranks, those included that are gone. */
  default int size() {
    return world().meeting().ranks();
  }

  /**
   * Memory of this rank that the peers will reach, of a size that is the same on all ranks;
   * collective. The address is a multiple of 256. It is closed before the backend.
   */
  SymmetricRegion allocate(long bytes);

  /**
   * What carries puts of kernels to ranks whose memory stores do not reach; collective, once the
   * region is reached.
   *
   * @param intranode by number, the ranks whose memory they do reach, this one among them
   */
  default PutOffer offerPuts(SymmetricRegion region, PutShape shape, boolean[] intranode) {
    return PutOffer.STORES;
  }

  /** Returns once all ranks have called it. */
  default void barrier(Duration timeout) {
    world().meeting().group().barrier(timeout);
  }

  /**
   * Why ranks that were started again cannot be taken in, with the remedy; empty if they can. Then
   * {@link SymmetricRegion#reach} works again and again.
   */
  String refusesReadmission();

  /** Gives everything back. Never hangs: what a rank that is gone would have to help with stays. */
  @Override
  void close();
}
