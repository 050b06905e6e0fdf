package org.ep4j;

import java.util.Arrays;

/**
 * Maps each expert to its rank and its local number.
 *
 * <p>Expert ids in a {@link Routing} index this table. A replicated or relocated expert has its own
 * id here; the code that makes the routing chooses between replicas. The local number of an expert
 * is its position among the experts of its rank in ascending id order. Immutable.
 */
public final class ExpertPlacement {
  private final int ranks;
  private final int[] rankOf;
  private final int[] localOf;
  private final int[][] expertsOf;

  private ExpertPlacement(int[] rankOf, int ranks) {
    this.ranks = ranks;
    this.rankOf = rankOf;
    this.localOf = new int[rankOf.length];
    int[] counts = new int[ranks];
    for (int e = 0; e < rankOf.length; e++) {
      if (rankOf[e] < 0 || rankOf[e] >= ranks) {
        throw new InvalidArgumentException(
            ErrorCode.EXPERT_PLACEMENT,
            "rankOfExpert[" + e + "]",
            String.valueOf(rankOf[e]),
            "0.." + (ranks - 1),
            "name an existing rank");
      }
      localOf[e] = counts[rankOf[e]]++;
    }
    expertsOf = new int[ranks][];
    for (int r = 0; r < ranks; r++) {
      expertsOf[r] = new int[counts[r]];
    }
    for (int e = 0; e < rankOf.length; e++) {
      expertsOf[rankOf[e]][localOf[e]] = e;
    }
  }

  /**
   * Consecutive blocks: rank {@code e / (experts / ranks)} owns expert {@code e}. If the division
   * leaves a remainder, the first ranks own one expert more.
   *
   * @throws InvalidArgumentException if a number is not positive
   */
  public static ExpertPlacement blocks(int experts, int ranks) {
    requirePositive("experts", experts);
    requirePositive("ranks", ranks);
    int[] rankOf = new int[experts];
    int base = experts / ranks;
    int extra = experts % ranks;
    int e = 0;
    for (int r = 0; r < ranks; r++) {
      int own = base + (r < extra ? 1 : 0);
      Arrays.fill(rankOf, e, e + own, r);
      e += own;
    }
    return new ExpertPlacement(rankOf, ranks);
  }

  /**
   * An explicit table: rank {@code rankOfExpert[e]} owns expert {@code e}.
   *
   * @throws InvalidArgumentException if an entry names no rank
   */
  public static ExpertPlacement table(int[] rankOfExpert, int ranks) {
    requirePositive("experts", rankOfExpert.length);
    requirePositive("ranks", ranks);
    return new ExpertPlacement(rankOfExpert.clone(), ranks);
  }

  /** Number of experts in the world. */
  public int experts() {
    return rankOf.length;
  }

  /** Number of ranks. */
  public int ranks() {
    return ranks;
  }

  /** The rank that owns {@code expert}. */
  public int rankOf(int expert) {
    return rankOf[expert];
  }

  /** Local number of {@code expert} on its rank. */
  public int localOf(int expert) {
    return localOf[expert];
  }

  /** Number of experts on {@code rank}. */
  public int localExperts(int rank) {
    return expertsOf[rank].length;
  }

  /** The maximum number of experts on any rank. */
  public int maxLocalExperts() {
    int max = 0;
    for (int[] own : expertsOf) {
      max = Math.max(max, own.length);
    }
    return max;
  }

  /** The expert with local number {@code local} on {@code rank}. */
  public int expertAt(int rank, int local) {
    return expertsOf[rank][local];
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ExpertPlacement p
        && p.ranks == ranks
        && Arrays.equals(p.rankOf, rankOf);
  }

  @Override
  public int hashCode() {
    return 31 * ranks + Arrays.hashCode(rankOf);
  }

  @Override
  public String toString() {
    return rankOf.length + " experts on " + ranks + " ranks";
  }

  private static void requirePositive(String name, int value) {
    if (value < 1) {
      throw new InvalidArgumentException(
          ErrorCode.EXPERT_PLACEMENT,
          name,
          String.valueOf(value),
          ">= 1",
          "pass a positive number");
    }
  }
}
