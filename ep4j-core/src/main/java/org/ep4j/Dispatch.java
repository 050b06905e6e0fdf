package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * What a high-throughput dispatch delivered. N is the number of received rows.
 *
 * <p>Every tensor is a view into the buffer's receive region: valid until the next high-throughput
 * dispatch on the same buffer. {@link Tensor#copyTo} makes an owned copy. The object itself is
 * reused by the buffer; accessors of an asynchronous dispatch wait for {@link #event()}.
 */
public interface Dispatch {
  /**
   * Number of received rows: EXACT the true count (EXPERT_MAJOR: padding included), STATIC the
   * caller's maximum.
   */
  long rows();

  /** Rows that carry a token; STATIC: the true count, which may exceed {@link #rows()}. */
  long receivedRows();

  /** Received rows, dtype of the payload, [N, H]. */
  Tensor x();

  /**
   * Scales of the received rows in the dtype they were sent: [N, S], or [S, A] if the dispatch
   * asked for {@link ScaleLayout#COLUMN_MAJOR}. Null if none were sent.
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
   * row, 0 on padding. Null if the routing had no weights.
   */
  @Nullable Tensor topkWeights();

  /** INT32 [L]: tokens per local expert, each rounded up to the expert alignment. */
  Tensor alignedCounts();

  /** INT32 [L]: tokens per local expert, not rounded. */
  Tensor counts();

  /**
   * INT64 [L + 1]: first row of each local expert's group and the end of the last (EXPERT_MAJOR);
   * for FLAT null.
   */
  @Nullable Tensor expertOffsets();

  /** INT64 [R + 1]: FLAT: first row from each source rank and the end; EXPERT_MAJOR: null. */
  @Nullable Tensor rankOffsets();

  /** INT32 [N]: token number at its source rank, -1 on unused and padding rows. */
  Tensor sourceTokens();

  /** INT32 [N]: source rank of each row, -1 on unused and padding rows. */
  Tensor sourceRanks();

  /**
   * A region [capacity, H] that the peers can read directly: experts that write their results here
   * (row i for row i) make combine free of copies. Its dtype is the one asked for.
   *
   * @param dtype BF16, FP16 or FP32
   */
  Tensor combineInput(DType dtype);

  /**
   * How many rows were missing, or null if all fitted. Only STATIC dispatches can overflow. Rows
   * that do not fit are not written, and combine leaves them out of the sums of their tokens.
   */
  @Nullable ReceiveOverflowException overflow();

  /** The way back. */
  DispatchHandle handle();

  /** Completion. */
  Event event();
}
