package org.ep4j.routing;

import java.util.Arrays;
import org.ep4j.balance.Balancer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Maps each expert to its rank and its local number.
 *
 * <p>Expert ids in a {@link Routing} index this table. A replicated or relocated expert has its own
 * id here; the code that makes the routing chooses between replicas, for example {@link
 * ReplicatedPlacement}, which {@link #balance(long[], int, int)} makes. The local number of an
 * expert is its position among the experts of its rank in ascending id order. Immutable.
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

  /**
   * Gives the hottest experts replicas, and all ranks similar load. Each rank has {@code (experts +
   * replicas) / ranks} slots, the first ranks one more if the division leaves a remainder; each
   * slot holds one physical expert, in blocks as {@link #blocks} numbers them. No rank holds two
   * replicas of an expert.
   *
   * <p>The load of an expert is taken to divide evenly among its replicas, as {@link
   * ReplicatedPlacement#physicalRouting} divides it. Up to 14 slots, the busiest rank has the least
   * load that is possible unless the search takes too long; with more, it comes close ({@code
   * docs/plan.md} has figures). The result depends on the arguments alone, so all ranks that pass
   * the same load get the same placement. Takes milliseconds for 256 experts on 32 ranks, seconds
   * on 2048 ranks.
   *
   * @param load tokens of each expert, as counted or recorded; 0 for experts without tokens
   * @param ranks number of ranks
   * @param replicas physical experts beyond one for each expert, for example an eighth of the
   *     experts; such that every rank has a slot, and no expert needs two slots of a rank
   * @throws InvalidArgumentException if a load is negative, all are 0, or their sum overflows; if
   *     the numbers of ranks and replicas do not fit
   */
  public static ReplicatedPlacement balance(long[] load, int ranks, int replicas) {
    return inBlocks(Balancer.balance(load, ranks, replicas), ranks, load.length);
  }

  /**
   * As {@link #balance(long[], int, int)}, for grouped gating: all replicas of the experts of a
   * group lie on one node, so that a token that chooses few groups goes to few nodes. Groups are
   * balanced over nodes first, then experts over the ranks of each node.
   *
   * @param groups groups of consecutive experts, a divisor of the experts and a multiple of the
   *     nodes
   * @param ranksPerNode ranks of a node, a divisor of {@code ranks}
   * @throws InvalidArgumentException as the other method, and if ranks would have different numbers
   *     of slots
   */
  public static ReplicatedPlacement balance(
      long[] load, int ranks, int replicas, int groups, int ranksPerNode) {
    return inBlocks(
        Balancer.balance(load, ranks, replicas, groups, ranksPerNode), ranks, load.length);
  }

  private static ReplicatedPlacement inBlocks(int[] expertIn, int ranks, int experts) {
    return ReplicatedPlacement.of(blocks(expertIn.length, ranks), expertIn, experts);
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
