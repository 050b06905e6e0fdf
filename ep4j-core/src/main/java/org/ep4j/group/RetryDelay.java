package org.ep4j.group;

import java.time.Duration;

/** A rest before something is tried again. */
final class RetryDelay {
  private RetryDelay() {}

  /**
   * Rests.
   *
   * @param interrupted message if the thread is interrupted meanwhile
   * @throws GroupException then; the thread stays interrupted
   */
  static void of(Duration length, String interrupted) {
    try {
      Thread.sleep(length);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(interrupted, e);
    }
  }
}
