package org.ep4j.cuda.engine;

import java.util.function.Supplier;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupException;
import org.jspecify.annotations.Nullable;

/**
 * Where ranks that return and ranks that have the buffer meet: in front of each exchange of the
 * opening, so that no rank waits in an exchange for a rank that has failed before. A rank that
 * fails tells its reason where the others meet next. Both sides meet equally often, in the same
 * order: {@link CudaBufferOpening} on returning ranks, {@link Recovery#readmit} on the others.
 */
final class RejoinSteps {
  /** Of a rank that opens a buffer with all others. */
  static final RejoinSteps NONE = new RejoinSteps(null);

  private final @Nullable SurvivorAgreement agreement;

  /** Whether this rank is in an exchange that reports failures itself. */
  private boolean exchanging;

  RejoinSteps(@Nullable SurvivorAgreement agreement) {
    this.agreement = agreement;
  }

  /**
   * All has been prepared that the next exchange needs; collective.
   *
   * @throws Ep4jException if another rank has failed; names it
   */
  void meet() {
    if (agreement != null) {
      agreement.agree("", agreement.timeout());
    }
  }

  /** Runs an exchange that reports the failure of one rank on all. */
  <T> T exchange(Supplier<T> exchange) {
    exchanging = true;
    T result = exchange.get();
    exchanging = false;
    return result;
  }

  /** Runs the steps of this rank; the others receive a failure where they meet next. */
  <T> T telling(Supplier<T> steps) {
    try {
      return steps.get();
    } catch (RuntimeException | Error e) { // also memory that runs out
      if (agreement != null && !isKnown(e)) {
        tell(agreement, e);
      }
      throw e;
    }
  }

  /** Whether the other ranks have this failure, or cannot be told. */
  private boolean isKnown(Throwable problem) {
    return exchanging
        || problem instanceof GroupException
        || (problem instanceof Ep4jException e && e.errorCode() == ErrorCode.PEER_FAILED);
  }

  private static void tell(SurvivorAgreement agreement, Throwable problem) {
    String message = problem.getMessage();
    try {
      agreement.agree(
          message == null || message.isEmpty() ? problem.toString() : message, agreement.timeout());
    } catch (GroupException e) {
      problem.addSuppressed(e);
    } catch (Ep4jException e) {
      // As expected: it repeats the failure of this rank.
    }
  }
}
