package org.ep4j.engine.world;

/**
 * Joins hosts into one node although they share no host memory: an engine knows whether its ranks
 * reach each other's memory between hosts.
 */
@FunctionalInterface
public interface HostDomains {
  /** Ranks of different hosts reach no memory of each other. */
  HostDomains NONE = hosts -> hosts;

  /**
   * Finds what the host of each rank belongs to; collective.
   *
   * @param hosts host identity of each rank
   * @return by rank, the same on all ranks: an identity that hosts of one domain share, and that
   *     all ranks of a host have
   */
  String[] of(String[] hosts);
}
