package org.ep4j.engine.host.context;

import org.ep4j.routing.ExpertPlacement;

/**
 * A placement as plain arrays for inner loops. Experts are numbered by <em>position</em>: in order
 * of (rank, local number), so that a rank's experts are consecutive.
 */
public final class ExpertTable {
  /** Rank of each expert. */
  public final int[] rankOf;

  /** Local number of each expert. */
  public final int[] localOf;

  /** Position of each expert. */
  public final int[] positionOf;

  /** Rank of each position. */
  public final int[] rankAt;

  /** Whether each expert is at the position of its id. */
  public final boolean inOrder;

  /** First position of each rank, and the end of the last. */
  public final int[] first;

  public ExpertTable(ExpertPlacement placement) {
    int experts = placement.experts();
    int ranks = placement.ranks();
    first = new int[ranks + 1];
    for (int r = 0; r < ranks; r++) {
      first[r + 1] = first[r] + placement.localExperts(r);
    }
    rankOf = new int[experts];
    localOf = new int[experts];
    positionOf = new int[experts];
    rankAt = new int[experts];
    boolean ascending = true;
    for (int e = 0; e < experts; e++) {
      rankOf[e] = placement.rankOf(e);
      localOf[e] = placement.localOf(e);
      positionOf[e] = first[rankOf[e]] + localOf[e];
      rankAt[positionOf[e]] = rankOf[e];
      ascending &= positionOf[e] == e;
    }
    inOrder = ascending;
  }
}
