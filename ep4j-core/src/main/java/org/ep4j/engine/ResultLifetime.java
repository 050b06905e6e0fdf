package org.ep4j.engine;

import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;

/**
 * Tells the last result of a buffer's dispatches, or of its combines, from older ones: results are
 * views of memory that the next operation overwrites. Used by the thread that uses the buffer.
 */
public final class ResultLifetime {
  private final String operation;
  private long current;

  /**
   * @param operation {@code dispatch} or {@code combine}, for messages
   */
  public ResultLifetime(String operation) {
    this.operation = operation;
  }

  /** Outdates all results; returns the number of the next. */
  public long next() {
    return ++current;
  }

  /** Requires that result {@code number} is the last. */
  public void require(long number) {
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
