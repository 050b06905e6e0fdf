package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * Result of a high-throughput combine. Tensors are views with the lifetime that {@link
 * CombineOptions#out()} defines. Accessors of an asynchronous combine wait for {@link #event()}.
 */
public interface Combine {
  /**
   * Sums [T, H] over the ranks that hold each token, in the dtype of the rows. Routing weights are
   * not applied.
   */
  Tensor x();

  /** Sums of the weights, FP32 [T, K]; null if no weights were passed. */
  @Nullable Tensor topkWeights();

  /** Completion of the combine. */
  Event event();
}
