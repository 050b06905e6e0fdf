package org.ep4j;

import java.util.List;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.tensor.Tensor;

/**
 * Result of a low-latency dispatch with {@link Layout#RANK_MAJOR}: one row per token, whatever the
 * number of its local experts, in a group per source rank. Each row arrives with its choices, for
 * callers that group by experts themselves.
 */
public interface RankMajorDispatch extends LowLatencyDispatch {
  /**
   * The choices of each row, INT64 [R, M, K]: local expert 0 to L-1 in the slot of the source, -1
   * if the expert is not local or the slot is masked. Only rows with tokens are valid.
   */
  Tensor topkIdx();

  /**
   * The weights of those choices as dispatched, FP32 [R, M, K], 0 where {@link #topkIdx()} is -1.
   *
   * @throws IllegalStateException if {@link #hasWeights()} is false
   */
  Tensor topkWeights();

  /** Refused: rows are grouped by source rank. */
  @Override
  default List<ExpertRows> expertRows() {
    throw Arguments.missing("expertRows", "RANK_MAJOR groups rows by source rank");
  }
}
