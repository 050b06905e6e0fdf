package org.ep4j.bench;

import org.ep4j.config.WireName;

/**
 * Declared nodes of a bench.
 *
 * @param ranksPerNode ranks of a node; 0 = what a buffer finds: the ranks of a host, or of several
 *     that NVLink joins
 * @param wire kind of wire between nodes
 */
public record NodeChoice(int ranksPerNode, String wire) {
  /** Nodes that a buffer finds. */
  public static final NodeChoice HOSTS = new NodeChoice(0, WireName.AUTO);

  /** Whether the ranks belong to several nodes. */
  public boolean several(int ranks) {
    return ranksPerNode > 0 && ranksPerNode < ranks;
  }

  /** Number of nodes. */
  public int count(int ranks) {
    return several(ranks) ? Math.ceilDiv(ranks, ranksPerNode) : 1;
  }

  /** Node of a rank. */
  public int of(int rank) {
    return ranksPerNode == 0 ? 0 : rank / ranksPerNode;
  }

  /** The rank of a node that exchanges with {@code rank}. */
  public int rail(int rank, int node, int ranks) {
    int first = node * ranksPerNode;
    int size = Math.min(ranksPerNode, ranks - first);
    return first + rank % ranksPerNode % size;
  }
}
