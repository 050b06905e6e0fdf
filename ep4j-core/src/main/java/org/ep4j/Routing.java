package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * The experts of each token of this rank.
 *
 * @param topkIdx expert ids, INT64 or INT32 [T, K]; -1 = no expert in this slot; each expert at
 *     most once per token
 * @param topkWeights weights, FP32 [T, K], or null to move rows only
 */
public record Routing(Tensor topkIdx, @Nullable Tensor topkWeights) {
  /**
   * Checks the shapes; the operation that uses the routing checks the ids.
   *
   * @throws InvalidArgumentException if a shape or dtype is invalid
   */
  public Routing {
    if (topkIdx.dimensions() != 2
        || (topkIdx.dtype() != DType.INT64 && topkIdx.dtype() != DType.INT32)) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topkIdx",
          topkIdx.toString(),
          "INT64 or INT32 [tokens, topK]",
          "reshape or convert the tensor");
    }
    if (topkWeights != null
        && (topkWeights.dtype() != DType.FP32
            || topkWeights.dimensions() != 2
            || topkWeights.size(0) != topkIdx.size(0)
            || topkWeights.size(1) != topkIdx.size(1))) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topkWeights",
          topkWeights.toString(),
          "FP32[" + topkIdx.size(0) + ", " + topkIdx.size(1) + "] like topkIdx",
          "pass one weight for each id");
    }
  }

  /** A routing without weights. */
  public static Routing of(Tensor topkIdx) {
    return new Routing(topkIdx, null);
  }

  /** A routing with weights. */
  public static Routing of(Tensor topkIdx, Tensor topkWeights) {
    return new Routing(topkIdx, topkWeights);
  }

  /**
   * A routing over heap arrays, row-major [T, topK]. Both arrays have the same length, a multiple
   * of {@code topK}.
   *
   * @throws InvalidArgumentException if a length does not fit
   */
  public static Routing of(long[] topkIdx, float[] topkWeights, int topK) {
    long tokens = tokens(topkIdx.length, topkWeights.length, topK);
    return new Routing(Tensor.of(topkIdx, tokens, topK), Tensor.of(topkWeights, tokens, topK));
  }

  /**
   * A routing over heap arrays, row-major [T, topK]. Both arrays have the same length, a multiple
   * of {@code topK}.
   *
   * @throws InvalidArgumentException if a length does not fit
   */
  public static Routing of(int[] topkIdx, float[] topkWeights, int topK) {
    long tokens = tokens(topkIdx.length, topkWeights.length, topK);
    return new Routing(Tensor.of(topkIdx, tokens, topK), Tensor.of(topkWeights, tokens, topK));
  }

  /** Rejects arrays with incomplete rows. */
  private static long tokens(int ids, int weights, int topK) {
    if (topK < 1) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topK",
          String.valueOf(topK),
          ">= 1",
          "pass the number of choices per token");
    }
    if (ids % topK != 0) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topkIdx",
          ids + " ids",
          "whole rows of " + topK,
          "pass topK ids for each token");
    }
    if (weights != ids) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topkWeights",
          weights + " weights",
          "as many as ids (" + ids + ")",
          "pass one weight for each id");
    }
    return ids / topK;
  }

  /** Number of tokens T. */
  public int tokens() {
    return Math.toIntExact(topkIdx.size(0));
  }

  /** Number of choices per token K. */
  public int topK() {
    return Math.toIntExact(topkIdx.size(1));
  }
}
