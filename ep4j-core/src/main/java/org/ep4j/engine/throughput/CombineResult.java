package org.ep4j.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.jspecify.annotations.Nullable;

/**
 * The result of a combine.
 *
 * @param <E> the engine's end of an operation
 */
public final class CombineResult<E extends ResultEnd> extends LentResult<E> implements Combine {
  private @Nullable Tensor x;
  private @Nullable Tensor topkWeights;

  /** A result without a combine. */
  public CombineResult(Lifetime lifetime, E end) {
    super(lifetime, end);
  }

  @Override
  void begin(long next, boolean inGraph) {
    super.begin(next, inGraph);
    x = null;
    topkWeights = null;
  }

  /** The combine delivers, or has delivered, these sums. */
  public void deliver(Tensor sums, @Nullable Tensor weights) {
    x = sums;
    topkWeights = weights;
  }

  @Override
  public Tensor x() {
    awaitEnd();
    return delivered(x);
  }

  @Override
  public boolean hasWeights() {
    x();
    return topkWeights != null;
  }

  @Override
  public Tensor topkWeights() {
    x();
    Tensor weights = topkWeights;
    if (weights == null) {
      throw Arguments.missing("topkWeights", "CombineOptions.topkWeights was not set");
    }
    return weights;
  }
}
