package org.ep4j.cuda.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.Tensor;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.ResultLifetime;
import org.jspecify.annotations.Nullable;

/** The result of a combine. A buffer reuses a few objects in turn. */
final class CudaCombine implements Combine {
  private final ResultLifetime lifetime;
  private long number;
  private @Nullable Tensor x;
  private @Nullable Tensor topkWeights;
  private final OperationEnd end;
  private boolean inStreamOrder;
  private boolean captured;

  CudaCombine(Completion completion, ResultLifetime lifetime) {
    this.lifetime = lifetime;
    end = new OperationEnd(completion);
  }

  /** Begins result {@code next} of the buffer. */
  void begin(long next) {
    number = next;
    x = null;
  }

  /**
   * Describes an enqueued operation.
   *
   * @param ticket 0 if the operation has ended
   */
  void enqueued(
      Tensor sums, @Nullable Tensor weights, long ticket, boolean callersStream, boolean inGraph) {
    x = sums;
    topkWeights = weights;
    end.enqueued("combine", 0, ticket);
    inStreamOrder = callersStream;
    captured = inGraph;
  }

  @Override
  public Tensor x() {
    if (!captured) {
      // Replays of a graph write the results of a captured combine again.
      lifetime.require(number);
    }
    if (!inStreamOrder) {
      end.await();
    }
    Tensor sums = x;
    if (sums == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the combine has failed: read the error from its event");
    }
    return sums;
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

  @Override
  public Event event() {
    return end.event();
  }
}
