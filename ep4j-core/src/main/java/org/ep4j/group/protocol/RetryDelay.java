package org.ep4j.group.protocol;

import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupException;

/** A pause before a retry. */
public final class RetryDelay {
  private RetryDelay() {}

  /**
   * Pauses.
   *
   * @param interrupted message if the thread is interrupted meanwhile
   * @throws GroupException if interrupted; the interrupt flag stays set
   */
  public static void of(Duration length, String interrupted) {
    try {
      Thread.sleep(length);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(ErrorCode.GROUP_INTERRUPTED, interrupted, e);
    }
  }
}
