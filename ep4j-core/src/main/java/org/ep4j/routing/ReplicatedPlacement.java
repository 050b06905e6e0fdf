package org.ep4j.routing;

import java.util.Arrays;
import org.ep4j.balance.Alignment;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Experts of a model, the <em>logical</em> experts, of which some lie on several ranks. Each copy
 * is a <em>physical</em> expert with an id of its own, and buffers know physical experts alone:
 *
 * <ol>
 *   <li>{@code BufferConfig.placement} is {@link #placement()}.
 *   <li>A rank loads the weights of {@code logicalOf(placement().expertAt(rank, local))} for each
 *       of its experts.
 *   <li>Each batch passes {@link #physicalRouting}, which chooses a replica for each choice of the
 *       router.
 * </ol>
 *
 * <p>All placements that {@link ExpertPlacement#balance(long[], int, int)} makes for the same
 * numbers of experts, replicas and ranks have the same {@link #placement()}: they differ only in
 * which logical expert lies in which slot. A new one needs moved weights, but no other buffer: open
 * handles stay valid, and the next dispatch may use it.
 *
 * <p>Immutable; any thread may use it.
 */
public final class ReplicatedPlacement {
  private final ExpertPlacement placement;
  private final int[] logicalOf;
  private final int[][] replicas;

  private ReplicatedPlacement(ExpertPlacement placement, int[] logicalOf, int experts) {
    this.placement = placement;
    this.logicalOf = logicalOf;
    int[] counts = new int[experts];
    for (int p = 0; p < logicalOf.length; p++) {
      if (logicalOf[p] < 0 || logicalOf[p] >= experts) {
        throw bad("logicalOf[" + p + "]", logicalOf[p], "0.." + (experts - 1), "name an expert");
      }
      counts[logicalOf[p]]++;
    }
    replicas = new int[experts][];
    for (int e = 0; e < experts; e++) {
      if (counts[e] == 0) {
        throw bad(
            "replicas of expert " + e, 0, ">= 1", "name every expert at least once in logicalOf");
      }
      replicas[e] = new int[counts[e]];
    }
    Arrays.fill(counts, 0);
    for (int p = 0; p < logicalOf.length; p++) {
      int e = logicalOf[p];
      replicas[e][counts[e]++] = p;
    }
  }

  /**
   * An explicit table.
   *
   * @param placement ranks of the physical experts
   * @param logicalOf the logical expert of each physical one: as many as {@code placement} has, and
   *     every logical expert at least once. Several replicas on one rank are allowed
   * @param experts number of logical experts
   * @throws InvalidArgumentException if the table does not fit
   */
  public static ReplicatedPlacement of(ExpertPlacement placement, int[] logicalOf, int experts) {
    if (logicalOf.length != placement.experts()) {
      throw bad(
          "logicalOf.length",
          logicalOf.length,
          placement.experts() + " like the placement",
          "pass one logical expert for each physical one");
    }
    if (experts < 1 || experts > logicalOf.length) {
      throw bad("experts", experts, "1.." + logicalOf.length, "place every expert at least once");
    }
    return new ReplicatedPlacement(placement, logicalOf.clone(), experts);
  }

  /** Every expert once: physical and logical experts are the same. */
  public static ReplicatedPlacement of(ExpertPlacement placement) {
    int[] logicalOf = new int[placement.experts()];
    Arrays.setAll(logicalOf, p -> p);
    return new ReplicatedPlacement(placement, logicalOf, logicalOf.length);
  }

  /** Ranks and local numbers of the physical experts: the placement of a buffer. */
  public ExpertPlacement placement() {
    return placement;
  }

  /** Number of logical experts. */
  public int experts() {
    return replicas.length;
  }

  /** Number of ranks. */
  public int ranks() {
    return placement.ranks();
  }

  /** The logical expert that a physical one is a replica of. */
  public int logicalOf(int physical) {
    return logicalOf[physical];
  }

  /** Number of replicas of a logical expert, 1 or more. */
  public int replicas(int logical) {
    return replicas[logical].length;
  }

  /**
   * Replica {@code n} of a logical expert, from 0: a physical expert. Ids ascend with {@code n}.
   */
  public int replica(int logical, int n) {
    return replicas[logical][n];
  }

  /**
   * Translates logical into physical ids: of an expert with c replicas, the n-th choice in this
   * routing, counted from 0 in the order of tokens, goes to replica {@code (n + rank) mod c}.
   *
   * <p>The replicas of an expert receive equally many rows of each rank, or one more; ranks begin
   * at different replicas, so that these rows do not add up. The result depends on the arguments
   * alone: repetitions agree bit for bit, whatever other ranks do.
   *
   * @param logical ids of logical experts, -1 = none; in host or device memory, read as by {@link
   *     Tensor#copyTo}
   * @param rank the rank whose tokens these are
   * @return the same tokens with physical ids of the same dtype on the heap, -1 where it was -1,
   *     the same weights, and a copy of the logical ids
   * @throws InvalidArgumentException if an id names no logical expert, or there is no such rank
   */
  public Routing physicalRouting(Routing logical, int rank) {
    if (rank < 0 || rank >= ranks()) {
      throw bad("rank", rank, "0.." + (ranks() - 1), "pass the rank of the tokens");
    }
    Tensor idx = logical.topkIdx();
    long[] ids = idx.toLongArray();
    Tensor named = Tensor.of(ids.clone(), idx.size(0), idx.size(1));
    int[] chosen = new int[experts()];
    for (int at = 0; at < ids.length; at++) {
      if (ids[at] == -1) {
        continue;
      }
      if (ids[at] < 0 || ids[at] >= experts()) {
        throw new InvalidArgumentException(
            ErrorCode.NO_SUCH_EXPERT,
            "topkIdx[" + at / logical.topK() + ", " + at % logical.topK() + "]",
            String.valueOf(ids[at]),
            "-1.." + (experts() - 1),
            "pass the ids of logical experts");
      }
      int expert = (int) ids[at];
      int count = replicas[expert].length;
      ids[at] = replicas[expert][(int) ((chosen[expert]++ + (long) rank) % count)];
    }
    Tensor physical =
        idx.dtype() == DType.INT64
            ? Tensor.of(ids, idx.size(0), idx.size(1))
            : Tensor.of(
                Arrays.stream(ids).mapToInt(Math::toIntExact).toArray(), idx.size(0), idx.size(1));
    return new Routing(physical, logical.topkWeights(), named);
  }

  /**
   * A placement with the loads of this one that moves few experts away from {@code current}: ranks
   * exchange all their experts, and an expert that stays on a rank keeps its slot.
   *
   * @param current the placement in use, with the same {@link #placement()}
   * @param ranksPerNode consecutive ranks whose experts stay together on a node, for placements
   *     with groups; {@link #ranks()} lets every rank exchange its experts with any other
   * @throws InvalidArgumentException if the placements differ in slots or experts, or {@code
   *     ranksPerNode} does not divide the ranks
   */
  public ReplicatedPlacement alignedTo(ReplicatedPlacement current, int ranksPerNode) {
    if (!current.placement.equals(placement) || current.experts() != experts()) {
      throw new InvalidArgumentException(
          ErrorCode.REPLICA_TABLE,
          "current",
          current.toString(),
          "a placement of the same slots and experts: " + this,
          "balance for the same ranks, experts and replicas");
    }
    if (ranksPerNode < 1 || ranks() % ranksPerNode != 0) {
      throw bad("ranksPerNode", ranksPerNode, "a divisor of " + ranks(), "use whole nodes");
    }
    int[][] aligned = Alignment.align(byRank(), current.byRank(), ranksPerNode);
    int[] table = new int[logicalOf.length];
    for (int rank = 0; rank < aligned.length; rank++) {
      for (int local = 0; local < aligned[rank].length; local++) {
        table[placement.expertAt(rank, local)] = aligned[rank][local];
      }
    }
    return new ReplicatedPlacement(placement, table, experts());
  }

  /** Logical experts of each rank, in the order of local numbers. */
  private int[][] byRank() {
    int[][] experts = new int[ranks()][];
    for (int rank = 0; rank < experts.length; rank++) {
      experts[rank] = new int[placement.localExperts(rank)];
      for (int local = 0; local < experts[rank].length; local++) {
        experts[rank][local] = logicalOf[placement.expertAt(rank, local)];
      }
    }
    return experts;
  }

  /**
   * The load of each logical expert: the sum over its replicas. {@link
   * ExpertPlacement#balance(long[], int, int)} takes it.
   *
   * <p>Buffers count rows of physical experts, as {@code WorldObservation.tokensOfExperts()} shows
   * them, and continue the count of a slot that gets another expert. Pass what was counted while
   * this placement was in use: the difference of two observations.
   *
   * @param rows tokens that each physical expert has received, by physical id
   * @return tokens of each logical expert, by logical id; the sum is that of {@code rows}
   * @throws InvalidArgumentException if there are not as many counts as physical experts, one is
   *     negative, or a sum overflows
   */
  public long[] logicalLoad(long[] rows) {
    if (rows.length != logicalOf.length) {
      throw badRows(
          "rows",
          rows.length + " experts",
          logicalOf.length + " physical experts of the placement");
    }
    long[] load = new long[experts()];
    for (int p = 0; p < rows.length; p++) {
      if (rows[p] < 0) {
        throw badRows("rows[" + p + "]", String.valueOf(rows[p]), ">= 0");
      }
      int e = logicalOf[p];
      load[e] += rows[p];
      if (load[e] < 0) {
        throw badRows("rows of expert " + e, "a sum over 2^63", "less than 2^63");
      }
    }
    return load;
  }

  private static InvalidArgumentException badRows(String argument, String value, String limit) {
    return new InvalidArgumentException(
        ErrorCode.EXPERT_LOAD, argument, value, limit, "count the tokens of each physical expert");
  }

  /**
   * The load of each rank, if the load of an expert divides evenly among its replicas.
   *
   * @param load tokens of each logical expert
   * @throws InvalidArgumentException if there are not as many loads as logical experts
   */
  public double[] rankLoads(long[] load) {
    if (load.length != experts()) {
      throw new InvalidArgumentException(
          ErrorCode.EXPERT_LOAD,
          "load",
          load.length + " experts",
          experts() + " experts like the placement",
          "pass the load of each logical expert");
    }
    double[] loads = new double[ranks()];
    for (int p = 0; p < logicalOf.length; p++) {
      int e = logicalOf[p];
      loads[placement.rankOf(p)] += (double) load[e] / replicas[e].length;
    }
    return loads;
  }

  /**
   * Mean load of the ranks over the load of the busiest: 1 if all have the same, 1 / ranks if one
   * has all, 1 without load.
   *
   * @param load as in {@link #rankLoads}
   * @throws InvalidArgumentException if there are not as many loads as logical experts
   */
  public double balancedness(long[] load) {
    double[] loads = rankLoads(load);
    double max = Arrays.stream(loads).max().orElseThrow();
    return max == 0 ? 1 : Arrays.stream(loads).sum() / loads.length / max;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ReplicatedPlacement p
        && p.placement.equals(placement)
        && Arrays.equals(p.logicalOf, logicalOf);
  }

  @Override
  public int hashCode() {
    return 31 * placement.hashCode() + Arrays.hashCode(logicalOf);
  }

  @Override
  public String toString() {
    return experts()
        + " experts with "
        + (logicalOf.length - experts())
        + " further replicas on "
        + ranks()
        + " ranks";
  }

  private static InvalidArgumentException bad(
      String argument, int value, String limit, String remedy) {
    return new InvalidArgumentException(
        ErrorCode.REPLICA_TABLE, argument, String.valueOf(value), limit, remedy);
  }
}
