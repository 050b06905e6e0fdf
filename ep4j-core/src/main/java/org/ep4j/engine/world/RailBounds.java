package org.ep4j.engine.world;

/**
 * Upper bounds of {@link Rails} over all losses in which each node loses at most {@code lostRanks}
 * of its ranks, or all of them. Each bound is the largest value that one of these losses has.
 *
 * <p>A rank at place {@code p} of the {@code a} live ranks of its node is the rail of the places
 * {@code p, p + a, p + 2a, …} of another node, so it has most partners if no other node has lost a
 * rank, if its own node has lost as many as it may, and if these came before the rank where so many
 * did. One loss fulfills all three.
 */
public final class RailBounds {
  private final Nodes nodes;
  private final int lostRanks;

  /**
   * Bounds for losses of {@code lostRanks} ranks of each node.
   *
   * @param lostRanks 0 to {@link #maxLostRanks}
   */
  public RailBounds(Nodes nodes, int lostRanks) {
    this.nodes = nodes;
    this.lostRanks = lostRanks;
  }

  /** Largest number of ranks that each node can lose so that it keeps one. */
  public static int maxLostRanks(Nodes nodes) {
    int smallest = nodes.ranks();
    for (int node = 0; node < nodes.count(); node++) {
      smallest = Math.min(smallest, size(nodes, node));
    }
    return smallest - 1;
  }

  /** Ranks that each node may lose. */
  public int lostRanks() {
    return lostRanks;
  }

  /** Largest number of partners of {@code rank}. */
  public int partners(int rank) {
    int own = nodes.of(rank);
    int place = Math.max(0, rank - nodes.first(own) - lostRanks);
    int partners = 0;
    for (int node = 0; node < nodes.count(); node++) {
      if (node != own) {
        // A rank that is no rail of that node still has a rail there.
        partners += Math.max(1, served(own, place, node));
      }
    }
    return partners;
  }

  /** Largest number of partners of any rank. */
  public int maxPartners() {
    int max = 0;
    for (int rank = 0; rank < nodes.ranks(); rank++) {
      max = Math.max(max, partners(rank));
    }
    return max;
  }

  /** Largest number of ranks of other nodes that send to a node through one of its ranks. */
  public int maxSenders() {
    int max = 0;
    for (int own = 0; own < nodes.count(); own++) {
      int senders = 0;
      for (int node = 0; node < nodes.count(); node++) {
        senders += node == own ? 0 : served(own, 0, node);
      }
      max = Math.max(max, senders);
    }
    return max;
  }

  /**
   * Ranks of {@code node} whose rail is the rank at {@code place} of what is left of {@code own}.
   */
  private int served(int own, int place, int node) {
    return Math.ceilDiv(Math.max(0, size(nodes, node) - place), size(nodes, own) - lostRanks);
  }

  private static int size(Nodes nodes, int node) {
    return nodes.end(node) - nodes.first(node);
  }
}
