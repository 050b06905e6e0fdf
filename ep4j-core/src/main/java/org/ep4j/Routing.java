package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Which experts each token of this rank goes to.
 *
 * @param topkIdx expert ids, INT64 or INT32 [T, K]; -1 = no expert in this position; an expert at
 *     most once in a row
 * @param topkWeights weights, FP32 [T, K], or null to move rows only
 */
public record Routing(Tensor topkIdx, @Nullable Tensor topkWeights) {
  /** Checks the shapes; the ids themselves are checked by the operation that uses them. */
  public Routing {
    if (topkIdx.dimensions() != 2
        || (topkIdx.dtype() != DType.INT64 && topkIdx.dtype() != DType.INT32)) {
      throw new InvalidArgumentException(
          "topkIdx", topkIdx.toString(), "INT64 or INT32 [tokens, topK]", "reshape or convert it");
    }
    if (topkWeights != null
        && (topkWeights.dtype() != DType.FP32
            || topkWeights.dimensions() != 2
            || topkWeights.size(0) != topkIdx.size(0)
            || topkWeights.size(1) != topkIdx.size(1))) {
      throw new InvalidArgumentException(
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
   * A routing over heap arrays, row-major [T, topK]; both hold whole rows, and as many elements.
   */
  public static Routing of(long[] topkIdx, float[] topkWeights, int topK) {
    long tokens = tokens(topkIdx.length, topkWeights.length, topK);
    return new Routing(Tensor.of(topkIdx, tokens, topK), Tensor.of(topkWeights, tokens, topK));
  }

  /**
   * A routing over heap arrays, row-major [T, topK]; both hold whole rows, and as many elements.
   */
  public static Routing of(int[] topkIdx, float[] topkWeights, int topK) {
    long tokens = tokens(topkIdx.length, topkWeights.length, topK);
    return new Routing(Tensor.of(topkIdx, tokens, topK), Tensor.of(topkWeights, tokens, topK));
  }

  /** Refuses arrays of which a part would be left out. */
  private static long tokens(int ids, int weights, int topK) {
    if (topK < 1) {
      throw new InvalidArgumentException(
          "topK", String.valueOf(topK), ">= 1", "pass the number of choices a token");
    }
    if (ids % topK != 0) {
      throw new InvalidArgumentException(
          "topkIdx", ids + " ids", "whole rows of " + topK, "pass topK ids for each token");
    }
    if (weights != ids) {
      throw new InvalidArgumentException(
          "topkWeights", weights + " weights", ids + " of them", "pass one weight for each id");
    }
    return ids / topK;
  }

  /** Number of tokens T. */
  public int tokens() {
    return Math.toIntExact(topkIdx.size(0));
  }

  /** Number of choices a token K. */
  public int topK() {
    return Math.toIntExact(topkIdx.size(1));
  }
}
