package org.ep4j;

import org.jspecify.annotations.Nullable;

/** What a high-throughput combine delivered; views as {@link CombineOptions#out()} describes. */
public interface Combine {
  /** Sums over the ranks that held each token, dtype of the rows, [T, H]. */
  Tensor x();

  /** Sums of the weights FP32 [T, K], or null if none were passed. */
  @Nullable Tensor topkWeights();

  /** Completion. */
  Event event();
}
