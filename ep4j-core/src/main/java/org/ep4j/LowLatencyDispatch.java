package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * What a low-latency dispatch delivers. M is the fixed maximum of tokens a rank, L the number of
 * local experts. Views, valid until the second next low-latency dispatch; with a hook only after
 * the hook has run.
 */
public interface LowLatencyDispatch {
  /**
   * Rows [L, R*M, H]: BF16, FP8_E4M3 or NVFP4; the first {@link #counts()} of each expert count.
   *
   * <p>With {@link RowLayout#RANK_MAJOR}: [R, M, H], each row once for all its local experts; the
   * first {@link #counts()} of each source rank count.
   */
  Tensor x();

  /**
   * Scales: FP8: FP32 or UE8M0 [L, R*M, H/128]; NVFP4: FP8_E4M3 [L, R*M, H/16]; BF16: null. Only
   * rows with tokens mean anything.
   *
   * <p>With {@link ScaleLayout#COLUMN_MAJOR}: FP32 [L, H/128, A], FP8_E4M3 [L, H/16, A], and UE8M0
   * four to a word as INT32 [L, H/512, A], where A is R*M rounded up to whole 16 bytes.
   *
   * <p>With {@link RowLayout#RANK_MAJOR} R stands in the place of L, and M in that of R*M.
   */
  @Nullable Tensor scales();

  /** INT32 [L]: rows per local expert; {@link RowLayout#RANK_MAJOR}: [R], rows per source rank. */
  Tensor counts();

  /**
   * With {@link RowLayout#RANK_MAJOR} the choices of each row, INT64 [R, M, K]: local expert 0 to
   * L-1 in the slot where its source has it, -1 where that expert is not local or the slot is
   * masked. Only rows with tokens mean anything. Null with EXPERT_MAJOR.
   */
  @Nullable Tensor topkIdx();

  /**
   * With {@link RowLayout#RANK_MAJOR} the weights of those choices as dispatched, FP32 [R, M, K], 0
   * where {@link #topkIdx()} is -1. Null with EXPERT_MAJOR, and where the routing has no weights.
   */
  @Nullable Tensor topkWeights();

  /** The way back. */
  LowLatencyHandle handle();

  /**
   * The second half, with {@code returnHook}.
   *
   * @throws IllegalStateException if the dispatch was not started with {@code returnHook}
   */
  ReceiveHook hook();

  /** Completion (of the sending half, with {@code returnHook}). */
  Event event();
}
