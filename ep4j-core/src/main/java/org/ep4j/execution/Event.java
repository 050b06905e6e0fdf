package org.ep4j.execution;

import java.time.Duration;

/**
 * Completion of an asynchronous operation. Any thread may query and wait. Every wait for a failed
 * operation throws the error of the operation.
 */
public interface Event {
  /** Whether the operation has ended, successfully or not. */
  boolean isDone();

  /** Waits until the operation has ended; bounded by the deadlines of the buffer. */
  void await();

  /**
   * Waits at most {@code timeout}.
   *
   * @return whether the operation has ended
   */
  boolean await(Duration timeout);

  /** An event that is already complete. */
  static Event completed() {
    return CompletedEvent.INSTANCE;
  }
}
