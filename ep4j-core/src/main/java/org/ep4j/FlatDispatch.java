package org.ep4j;

import org.ep4j.config.Layout;
import org.ep4j.tensor.Tensor;

/**
 * Result of a dispatch with one row per received token, ordered by (source rank, source token):
 * {@link Layout#FLAT}. {@link Dispatch} defines lifetime and dimensions.
 */
public interface FlatDispatch extends Dispatch {
  /** Whether choices arrived with the rows: false after a cached dispatch. */
  boolean hasChoices();

  /**
   * INT64 [N, K]: local expert numbers, -1 where the choice is not local and on unused rows.
   *
   * @throws IllegalStateException if {@link #hasChoices()} is false: the choices are those of the
   *     first dispatch and are not sent again
   */
  Tensor topkIdx();

  /**
   * FP32 [N, K]: the weight of each choice, 0 where the choice is not local. Dispatch transports
   * weights and does not apply them.
   *
   * @throws IllegalStateException if {@link #hasWeights()} is false
   */
  Tensor topkWeights();

  /** INT64 [R + 1]: first row from each source rank, then the end. */
  Tensor rankOffsets();
}
