package org.ep4j.group;

import java.time.Duration;
import org.ep4j.ErrorCode;

/** A pause before a retry. */
final class RetryDelay {
  private RetryDelay() {}

  /**
   * Pauses.
   *
   * @param interrupted message if the thread is interrupted meanwhile
   * @throws GroupException if interrupted; the interrupt flag stays set
   */
  static void of(Duration length, String interrupted) {
    try {
      Thread.sleep(length);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(ErrorCode.GROUP_INTERRUPTED, interrupted, e);
    }
  }
}
