package org.ep4j.verify;

import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The routings of all ranks of one operation, on the heap. Immutable. */
public final class WorldRouting {
  private final ExpertPlacement placement;
  private final int topK;
  private final int[][] idx;
  private final float[][] weights;
  private final boolean weighted;

  private WorldRouting(
      ExpertPlacement placement, int topK, int[][] idx, float[][] weights, boolean weighted) {
    this.placement = placement;
    this.topK = topK;
    this.idx = idx;
    this.weights = weights;
    this.weighted = weighted;
  }

  /**
   * Copies the routings.
   *
   * @param routings one per rank, all with the same top-k; weights are used only if all have them
   */
  public static WorldRouting of(ExpertPlacement placement, List<Routing> routings) {
    if (routings.size() != placement.ranks()) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTINGS_DO_NOT_MATCH,
          "routings",
          routings.size() + " routings",
          placement.ranks() + " routings",
          "pass one for each rank of the placement");
    }
    int topK = routings.getFirst().topK();
    int[][] idx = new int[routings.size()][];
    float[][] weights = new float[routings.size()][];
    boolean weighted = true;
    for (int r = 0; r < idx.length; r++) {
      Routing routing = routings.get(r);
      if (routing.topK() != topK) {
        throw new InvalidArgumentException(
            ErrorCode.ROUTINGS_DO_NOT_MATCH,
            "routings[" + r + "].topK",
            String.valueOf(routing.topK()),
            topK + " like rank 0's",
            "use one top-k in all ranks");
      }
      Tensor ids = routing.topkIdx();
      Tensor given = routing.topkWeights();
      weighted &= given != null;
      idx[r] = new int[routing.tokens() * topK];
      weights[r] = new float[idx[r].length];
      for (int i = 0; i < idx[r].length; i++) {
        idx[r][i] = Math.toIntExact(ids.dtype() == DType.INT64 ? ids.getLong(i) : ids.getInt(i));
        weights[r][i] = given == null ? 0 : given.getFloat(i);
      }
    }
    return new WorldRouting(placement, topK, idx, weights, weighted);
  }

  /** Placement of the experts. */
  public ExpertPlacement placement() {
    return placement;
  }

  /** Number of ranks R. */
  public int ranks() {
    return idx.length;
  }

  /** Choices per token K. */
  public int topK() {
    return topK;
  }

  /** Whether there are weights. */
  public boolean weighted() {
    return weighted;
  }

  /** Number of tokens of {@code rank}. */
  public int tokens(int rank) {
    return idx[rank].length / topK;
  }

  /** Expert of choice {@code k}, or -1. */
  public int expert(int rank, int token, int k) {
    return idx[rank][token * topK + k];
  }

  /** The choices of a token, without masked ones, in ascending order of experts. */
  int[] choicesByExpert(int rank, int token) {
    return IntStream.range(0, topK)
        .filter(k -> expert(rank, token, k) >= 0)
        .boxed()
        .sorted(Comparator.comparingInt(k -> expert(rank, token, k)))
        .mapToInt(k -> k)
        .toArray();
  }

  /** Rank of choice {@code k}, or -1. */
  public int destination(int rank, int token, int k) {
    int expert = expert(rank, token, k);
    return expert < 0 ? -1 : placement.rankOf(expert);
  }

  /** Weight of choice {@code k}. */
  public float weight(int rank, int token, int k) {
    return weights[rank][token * topK + k];
  }

  /** Whether any choice of the token is on {@code destination}. */
  public boolean goesTo(int rank, int token, int destination) {
    for (int k = 0; k < topK; k++) {
      if (destination(rank, token, k) == destination) {
        return true;
      }
    }
    return false;
  }
}
