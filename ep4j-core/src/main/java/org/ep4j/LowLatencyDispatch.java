package org.ep4j;

import java.lang.foreign.Arena;
import java.util.List;
import org.ep4j.config.Layout;
import org.ep4j.execution.Event;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/**
 * Result of a low-latency dispatch: G groups with space for P rows each. M is the fixed maximum of
 * tokens per rank.
 *
 * <ul>
 *   <li>{@link Layout#EXPERT_MAJOR}: a group per local expert, G = L, P = R*M;
 *   <li>{@link Layout#RANK_MAJOR}: a group per source rank, G = R, P = M, see {@link
 *       RankMajorDispatch}.
 * </ul>
 *
 * <p>Tensors are views, valid until the second next low-latency dispatch; with a hook, after the
 * hook has run. Accessors of an outdated result throw {@link IllegalStateException}.
 */
public interface LowLatencyDispatch {
  /**
   * Rows [G, P, H]: BF16, FP8_E4M3 or NVFP4. The first {@link #counts()} rows of each group are
   * valid.
   */
  Tensor x();

  /** Whether rows have scales: true for FP8 and NVFP4. */
  boolean hasScales();

  /**
   * Scales: FP8: FP32 or UE8M0 [G, P, H/128]; NVFP4: FP8_E4M3 [G, P, H/16]. Only rows with tokens
   * are valid.
   *
   * <p>With {@link ScaleLayout#COLUMN_MAJOR}: FP32 [G, H/128, A], FP8_E4M3 [G, H/16, A], and UE8M0
   * packed four per word as INT32 [G, H/512, A], where A is P rounded up to whole 16 bytes.
   *
   * @throws IllegalStateException for BF16 rows
   */
  Tensor scales();

  /**
   * Whether weights arrived with the rows: with {@link Layout#EXPERT_MAJOR} if {@link
   * LowLatencyDispatchOptions#deliverWeights} was set, with {@link Layout#RANK_MAJOR} if the
   * routing had weights.
   */
  boolean hasWeights();

  /**
   * {@link Layout#EXPERT_MAJOR}: FP32 [L, R*M], the weight of each row as dispatched. Only rows
   * with tokens are valid. Dispatch does not apply weights; {@link ExpertBuffer#lowLatencyCombine}
   * applies those of its routing.
   *
   * @throws IllegalStateException if {@link #hasWeights()} is false, or with {@link
   *     Layout#RANK_MAJOR}: see {@link RankMajorDispatch#topkWeights()}
   */
  Tensor rowWeights();

  /** INT32 [G]: rows per group. */
  Tensor counts();

  /**
   * The rows of each local expert that has some, by local expert. Waits for the dispatch, and
   * copies the counts of a GPU to the host; a captured call cannot.
   *
   * @throws IllegalStateException with {@link Layout#RANK_MAJOR}, whose rows are not grouped by
   *     expert
   */
  default List<ExpertRows> expertRows() {
    event().await();
    long space = x().size(1);
    try (Arena arena = Arena.ofConfined()) {
      return ExpertRows.list(counts().onHost(arena), local -> local * space);
    }
  }

  /** The handle for combine. */
  LowLatencyHandle handle();

  /**
   * This result before its end. With {@code returnHook} its tensors have memory when the call
   * returns, and the hook fills them: for callers that pass addresses on before they call the hook.
   * Until then the contents are undefined, and accessors do not check that. Otherwise this result.
   */
  LowLatencyDispatch pending();

  /**
   * The receiving half of a dispatch with {@code returnHook}.
   *
   * @throws IllegalStateException if the dispatch has no {@code returnHook}
   */
  ReceiveHook hook();

  /** Completion; with {@code returnHook}, completion of the sending half. */
  Event event();
}
