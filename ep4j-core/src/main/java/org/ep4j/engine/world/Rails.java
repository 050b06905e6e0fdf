package org.ep4j.engine.world;

import java.util.Arrays;

/**
 * The pairs of ranks that exchange rows between nodes. A token crosses to another node once, to the
 * rank of the same index there (the <em>rail</em> of its source in that node), whichever ranks of
 * the node need the token; results return from that rank. Dead ranks do not count, so the rails are
 * renumbered after a loss.
 *
 * <p>Partners of a rank are its rails and the ranks whose rail it is: the relation is symmetric,
 * also between nodes of different sizes.
 */
public final class Rails {
  /** Stands for a rank if a node has no live one. */
  public static final int NONE = -1;

  private final Nodes nodes;

  /** Live ranks of each node. */
  private final int[][] live;

  /** Partners of each rank, ascending. */
  private final int[][] partners;

  /**
   * Rails among the live ranks.
   *
   * @param gone ranks that do not count
   */
  public Rails(Nodes nodes, boolean[] gone) {
    this.nodes = nodes;
    live = new int[nodes.count()][];
    for (int node = 0; node < live.length; node++) {
      int[] members = new int[nodes.end(node) - nodes.first(node)];
      int count = 0;
      for (int rank = nodes.first(node); rank < nodes.end(node); rank++) {
        if (!gone[rank]) {
          members[count++] = rank;
        }
      }
      live[node] = Arrays.copyOf(members, count);
    }
    partners = new int[nodes.ranks()][];
    for (int rank = 0; rank < partners.length; rank++) {
      partners[rank] = gone[rank] ? new int[0] : findPartners(rank);
    }
  }

  private int[] findPartners(int rank) {
    int[] found = new int[nodes.ranks()];
    int count = 0;
    for (int[] members : live) {
      for (int other : members) {
        if (!nodes.together(rank, other)
            && (rail(rank, nodes.of(other)) == other || rail(other, nodes.of(rank)) == rank)) {
          found[count++] = other;
        }
      }
    }
    return Arrays.copyOf(found, count);
  }

  /**
   * The rank that receives the rows from {@code rank} to {@code node}; {@link #NONE} if the node
   * has no live rank.
   */
  public int rail(int rank, int node) {
    int[] there = live[node];
    if (there.length == 0) {
      return NONE;
    }
    int place = Arrays.binarySearch(live[nodes.of(rank)], rank);
    return there[place % there.length];
  }

  /** Number of ranks of other nodes that send to the node of {@code rank} through that rank. */
  public int senders(int rank) {
    int senders = 0;
    for (int partner : partners[rank]) {
      senders += rail(partner, nodes.of(rank)) == rank ? 1 : 0;
    }
    return senders;
  }

  /** Other nodes than that of {@code rank} with live ranks, ascending. */
  public int[] nodesBeside(int rank) {
    int[] found = new int[live.length];
    int count = 0;
    for (int node = 0; node < live.length; node++) {
      if (node != nodes.of(rank) && live[node].length > 0) {
        found[count++] = node;
      }
    }
    return Arrays.copyOf(found, count);
  }

  /** Ranks that {@code rank} exchanges rows with, ascending; read-only. */
  public int[] partners(int rank) {
    return partners[rank];
  }

  /** Index of {@code other} among the partners of {@code rank}; negative if it is no partner. */
  public int place(int rank, int other) {
    return Arrays.binarySearch(partners[rank], other);
  }
}
