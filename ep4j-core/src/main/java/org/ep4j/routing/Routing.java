package org.ep4j.routing;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The experts of each token of this rank.
 *
 * @param topkIdx expert ids, INT64 or INT32 [T, K]; -1 = no expert in this slot; each expert at
 *     most once per token
 * @param topkWeights weights, FP32 [T, K], or null to move rows only
 * @param logicalIdx ids that order the sums of a combine by experts, INT64 or INT32 [T, K]: those
 *     of the logical experts if {@code topkIdx} names replicas; null: the ids of {@code topkIdx}
 */
public record Routing(Tensor topkIdx, @Nullable Tensor topkWeights, @Nullable Tensor logicalIdx) {
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
    if (logicalIdx != null
        && ((logicalIdx.dtype() != DType.INT64 && logicalIdx.dtype() != DType.INT32)
            || logicalIdx.dimensions() != 2
            || logicalIdx.size(0) != topkIdx.size(0)
            || logicalIdx.size(1) != topkIdx.size(1))) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "logicalIdx",
          logicalIdx.toString(),
          "INT64 or INT32 [" + topkIdx.size(0) + ", " + topkIdx.size(1) + "] like topkIdx",
          "pass one logical id for each id");
    }
  }

  /** A routing whose ids are those of logical experts. */
  public Routing(Tensor topkIdx, @Nullable Tensor topkWeights) {
    this(topkIdx, topkWeights, null);
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

  /**
   * A routing from a dense map, with K = the most experts that a token of this rank has, at least
   * 1. Ranks that must agree on K pass it to {@link #ofDense(Tensor, Tensor, int)}.
   *
   * @param map UINT8 [T, E]; not 0 = the token goes to that expert. In host or device memory, read
   *     as by {@link Tensor#copyTo}
   * @param probs weights, FP32 [T, E], of which those of chosen experts count; null to move rows
   *     only
   * @return ids and weights on the heap. The ids of a token ascend; slots without an expert are
   *     last, with id -1 and weight 0
   * @throws InvalidArgumentException if a shape or dtype is invalid
   */
  public static Routing ofDense(Tensor map, @Nullable Tensor probs) {
    return DenseRouting.choices(map, probs, DenseRouting.LONGEST_ROW);
  }

  /**
   * A routing from a dense map, as {@link #ofDense(Tensor, Tensor)}, with a given K.
   *
   * @param topK slots per token, at least as many as any token has experts
   * @throws InvalidArgumentException if a shape or dtype is invalid, or a token has more experts
   */
  public static Routing ofDense(Tensor map, @Nullable Tensor probs, int topK) {
    requireChoices(topK);
    return DenseRouting.choices(map, probs, topK);
  }

  /**
   * The weights as a dense matrix on the heap, FP32 [T, E]: 0 where a token does not have the
   * expert. A received routing, {@code Routing.of(dispatch.topkIdx(), dispatch.topkWeights())},
   * gives [N, L].
   *
   * @param experts number of columns: E, or L for a received routing
   * @throws InvalidArgumentException if the routing has no weights, or an id is not in -1..{@code
   *     experts} - 1
   */
  public Tensor denseWeights(int experts) {
    return DenseRouting.weights(this, experts);
  }

  /**
   * The same choices, and logical ids, with the weights that a dense matrix has for them, on the
   * heap; 0 in slots without an expert. The inverse of {@link #denseWeights}.
   *
   * @param probs FP32 [T, E]
   * @throws InvalidArgumentException if the shape or dtype is invalid, or an id is not in -1..E - 1
   */
  public Routing withDenseWeights(Tensor probs) {
    return DenseRouting.reweighted(this, probs);
  }

  /** Rejects arrays with incomplete rows. */
  private static long tokens(int ids, int weights, int topK) {
    requireChoices(topK);
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

  private static void requireChoices(int topK) {
    if (topK < 1) {
      throw new InvalidArgumentException(
          ErrorCode.ROUTING_SHAPE,
          "topK",
          String.valueOf(topK),
          ">= 1",
          "pass the number of choices per token");
    }
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
