package org.ep4j;

import java.time.Duration;

/**
 * Completion of an asynchronous operation. Any thread may ask and wait; an operation that failed
 * throws its error from every wait.
 */
public interface Event {
  /** Whether the operation has ended, well or badly. */
  boolean isDone();

  /** Waits until the operation has ended; bounded by the buffer's own deadlines. */
  void await();

  /**
   * Waits at most {@code timeout}.
   *
   * @return whether the operation has ended
   */
  boolean await(Duration timeout);

  /** An event that has happened. */
  static Event completed() {
    return CompletedEvent.INSTANCE;
  }
}
