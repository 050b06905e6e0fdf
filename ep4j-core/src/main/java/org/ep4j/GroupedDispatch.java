package org.ep4j;

import java.util.List;
import org.ep4j.config.Layout;
import org.ep4j.tensor.Tensor;

/**
 * Result of a dispatch with one row per (token, local expert), grouped by local expert: {@link
 * Layout#EXPERT_MAJOR}. Each group starts at a multiple of the expert alignment. {@link Dispatch}
 * defines lifetime and dimensions.
 */
public interface GroupedDispatch extends Dispatch {
  /** INT64 [L + 1]: first row of each local expert's group, then the end of the last group. */
  Tensor expertOffsets();

  /**
   * FP32 [N]: the weight of each row, 0 on padding. Dispatch transports weights and does not apply
   * them.
   *
   * @throws IllegalStateException if {@link #hasWeights()} is false
   */
  Tensor rowWeights();

  /** The rows of each local expert that has some, by local expert. Waits for the counts. */
  default List<ExpertRows> expertRows() {
    Tensor offsets = expertOffsets();
    return ExpertRows.list(counts(), offsets::getLong);
  }
}
