package org.ep4j.cuda.backend;

import java.time.Duration;

/**
 * The open backend of one buffer on one rank, used while a buffer opens and closes; operations in
 * between use only addresses. Used by one thread at a time.
 */
public interface Backend extends AutoCloseable {
  /** Name as in {@link org.ep4j.config.BufferConfig#backend()}. */
  String name();

  /** The ranks and their devices. */
  BackendWorld world();

  /** This rank. */
  default int rank() {
    return world().participants().rank();
  }

  /** Number of ranks, including dead ranks. */
  default int size() {
    return world().participants().ranks();
  }

  /**
   * Allocates memory of this rank that the peers can map, of equal size on all ranks; collective.
   * The address is a multiple of 256. Close it before the backend.
   */
  SymmetricRegion allocate(long bytes);

  /**
   * Allocates memory of this rank that peers on other hosts of its node can map, too; otherwise the
   * same. Only {@link org.ep4j.config.BackendName#DIRECT} has nodes of several hosts.
   */
  default SymmetricRegion allocateAcrossHosts(long bytes) {
    throw new IllegalStateException("a node of backend '" + name() + "' is at most a host");
  }

  /**
   * The transport for puts of kernels to ranks whose memory stores do not reach; collective, after
   * the region is mapped.
   *
   * @param intranode by rank, whether stores reach its memory, including this rank
   */
  default PutOffer offerPuts(SymmetricRegion region, PutShape shape, boolean[] intranode) {
    return PutOffer.STORES;
  }

  /** Returns once all ranks have called it. */
  default void barrier(Duration timeout) {
    world().participants().group().barrier(timeout);
  }

  /**
   * The reason why restarted ranks cannot be readmitted, with the remedy; empty if they can. If
   * empty, {@link SymmetricRegion#reach} works repeatedly.
   */
  String refusesReadmission();

  /**
   * Closes all resources. Never hangs: resources that need a dead rank to be freed stay allocated.
   */
  @Override
  void close();
}
