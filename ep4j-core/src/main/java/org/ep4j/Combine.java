package org.ep4j;

import org.ep4j.execution.Event;
import org.ep4j.tensor.Tensor;

/**
 * Result of a high-throughput combine. Valid until the next high-throughput combine on the same
 * buffer; from then on every accessor except {@link #event()} throws {@link IllegalStateException}.
 * Sums in the caller's {@link CombineOptions#out()} stay there. Accessors of an asynchronous
 * combine wait for {@link #event()}.
 */
public interface Combine {
  /**
   * Sums [T, H] over the ranks that hold each token, in the dtype of the rows. Routing weights are
   * applied only with {@link CombineOptions#applyWeights()}.
   */
  Tensor x();

  /** Whether weights were passed with {@link CombineOptions#topkWeights()}. */
  boolean hasWeights();

  /**
   * Sums of the passed weights, FP32 [T, K].
   *
   * @throws IllegalStateException if no weights were passed
   */
  Tensor topkWeights();

  /** Completion of the combine. */
  Event event();
}
