package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Result of a low-latency dispatch. M is the fixed maximum of tokens per rank, L the number of
 * local experts. Tensors are views, valid until the second next low-latency dispatch; with a hook,
 * after the hook has run.
 */
public interface LowLatencyDispatch {
  /**
   * Rows [L, R*M, H]: BF16, FP8_E4M3 or NVFP4. The first {@link #counts()} rows of each expert are
   * valid.
   *
   * <p>With {@link RowLayout#RANK_MAJOR}: [R, M, H], each row once for all its local experts; the
   * first {@link #counts()} rows of each source rank are valid.
   */
  Tensor x();

  /**
   * Scales: FP8: FP32 or UE8M0 [L, R*M, H/128]; NVFP4: FP8_E4M3 [L, R*M, H/16]; BF16: null. Only
   * rows with tokens are valid.
   *
   * <p>With {@link ScaleLayout#COLUMN_MAJOR}: FP32 [L, H/128, A], FP8_E4M3 [L, H/16, A], and UE8M0
   * packed four per word as INT32 [L, H/512, A], where A is R*M rounded up to whole 16 bytes.
   *
   * <p>With {@link RowLayout#RANK_MAJOR} R replaces L, and M replaces R*M.
   */
  @Nullable Tensor scales();

  /** INT32 [L]: rows per local expert; {@link RowLayout#RANK_MAJOR}: [R], rows per source rank. */
  Tensor counts();

  /**
   * With {@link RowLayout#RANK_MAJOR}, the choices of each row, INT64 [R, M, K]: local expert 0 to
   * L-1 in the slot of the source, -1 if the expert is not local or the slot is masked. Only rows
   * with tokens are valid. Null with EXPERT_MAJOR.
   */
  @Nullable Tensor topkIdx();

  /**
   * With {@link RowLayout#RANK_MAJOR}, the weights of those choices as dispatched, FP32 [R, M, K],
   * 0 where {@link #topkIdx()} is -1. Null with EXPERT_MAJOR, or if the routing has no weights.
   */
  @Nullable Tensor topkWeights();

  /** The handle for combine. */
  LowLatencyHandle handle();

  /**
   * The receiving half of a dispatch with {@code returnHook}.
   *
   * @throws IllegalStateException if the dispatch has no {@code returnHook}
   */
  ReceiveHook hook();

  /** Completion; with {@code returnHook}, completion of the sending half. */
  Event event();
}
