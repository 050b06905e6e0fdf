package org.ep4j.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.engine.Arguments;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.execution.Event;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A result that callers can read until the next operation of its kind, which overwrites the memory
 * that it shows.
 *
 * @param <E> the engine's end of an operation
 */
public abstract sealed class LentResult<E extends ResultEnd>
    permits DispatchResult, LentResult.CombineResult {
  /**
   * Tells the last result of a buffer's dispatches, or of its combines, from older ones. Used by
   * the thread in the buffer.
   */
  public static final class Lifetime {
    private final String operation;
    private long current;

    /**
     * No result yet.
     *
     * @param operation {@code dispatch} or {@code combine}, for messages
     */
    public Lifetime(String operation) {
      this.operation = operation;
    }

    /** Outdates all results; returns the number of the next. */
    public long next() {
      return ++current;
    }

    private void require(long number) {
      if (number != current) {
        throw new IllegalUseException(
            ErrorCode.RESULTS_OVERWRITTEN,
            "the results of this "
                + operation
                + " are overwritten; they are valid until the next "
                + operation
                + " or reset() of the buffer: use or copy them before it");
      }
    }
  }

  /** The end of the operation. */
  public final E end;

  private final Lifetime lifetime;
  private long number;

  /** Whether a graph replays the operation, which writes the result again. */
  private boolean captured;

  LentResult(Lifetime lifetime, E end) {
    this.lifetime = lifetime;
    this.end = end;
  }

  /** Begins the use as result {@code next}. */
  void begin(long next, boolean inGraph) {
    number = next;
    captured = inGraph;
  }

  /** Requires that the result is neither outdated nor without its operation's outcome. */
  final void awaitEnd() {
    if (!captured) {
      lifetime.require(number);
    }
    end.await();
  }

  /** The outcome of the ended operation. */
  final <T> T delivered(@Nullable T outcome) {
    if (outcome == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS,
          "the " + lifetime.operation + " has failed: read the error from its event");
    }
    return outcome;
  }

  /** The event of the operation, which is never outdated. */
  public final Event event() {
    return end.event();
  }

  /**
   * The result of a combine.
   *
   * @param <E> the engine's end of an operation
   */
  public static final class CombineResult<E extends ResultEnd> extends LentResult<E>
      implements Combine {
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
}
