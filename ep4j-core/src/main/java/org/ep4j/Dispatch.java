package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Result of a high-throughput dispatch. N is the number of received rows, S the number of scales
 * per row, R the number of ranks, L the number of local experts, K the top-k width.
 *
 * <p>Every tensor is a view into the buffer's receive region, valid until the next high-throughput
 * dispatch on the same buffer. {@link Tensor#copyTo} makes an owned copy. The buffer reuses this
 * object. Accessors of an asynchronous dispatch wait for {@link #event()}.
 */
public interface Dispatch {
  /**
   * Number of received rows N: with {@link Sizing#EXACT} the true count (EXPERT_MAJOR: padding
   * included), with {@link Sizing#atMost} the caller's maximum.
   */
  long rows();

  /**
   * Rows that carry a token. With {@link Sizing#atMost} this is the true count, which can exceed
   * {@link #rows()}.
   */
  long receivedRows();

  /** Received rows, dtype of the payload, [N, H]. */
  Tensor x();

  /**
   * Scales of the received rows in the dtype in which they were sent: [N, S], or [S, A] with {@link
   * ScaleLayout#COLUMN_MAJOR}. Null if no scales were sent.
   */
  @Nullable Tensor scales();

  /** NVFP4 factors FP32 [N], or null. */
  @Nullable Tensor globalScales();

  /**
   * FLAT: INT64 [N, K] local expert numbers, -1 where the choice is not local. EXPERT_MAJOR: null.
   */
  @Nullable Tensor topkIdx();

  /**
   * FLAT: FP32 [N, K], 0 where the choice is not local. EXPERT_MAJOR: FP32 [N], the weight of each
   * row, 0 on padding. Null if the routing has no weights. Dispatch transports weights and does not
   * apply them.
   */
  @Nullable Tensor topkWeights();

  /** INT32 [L]: tokens per local expert, rounded up to the expert alignment. */
  Tensor alignedCounts();

  /** INT32 [L]: tokens per local expert, not rounded. */
  Tensor counts();

  /**
   * INT64 [L + 1]: first row of each local expert's group, then the end of the last group
   * (EXPERT_MAJOR). FLAT: null.
   */
  @Nullable Tensor expertOffsets();

  /** INT64 [R + 1]: first row from each source rank, then the end (FLAT). EXPERT_MAJOR: null. */
  @Nullable Tensor rankOffsets();

  /** INT32 [N]: token number at its source rank, -1 on unused and padding rows. */
  Tensor sourceTokens();

  /** INT32 [N]: source rank of each row, -1 on unused and padding rows. */
  Tensor sourceRanks();

  /**
   * A region [capacity, H] that peers read directly. If experts write row i of their result to row
   * i of this region, combine needs no copy.
   *
   * @param dtype element type of the result: BF16, FP16 or FP32
   */
  Tensor combineInput(DType dtype);

  /**
   * The number of missing rows; null if all rows fit. Only dispatches with {@link Sizing#atMost}
   * can overflow. A row that does not fit is not written, and combine omits it from the sum of its
   * token.
   */
  @Nullable ReceiveOverflowException overflow();

  /** The handle for combine and for cached dispatches. */
  DispatchHandle handle();

  /** Completion of the dispatch. */
  Event event();
}
