package org.ep4j.engine;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * What an interrupt of the waiting thread does: it ends a wait as a deadline does, and the flag
 * stays set. Waits look at it where they look at the clock.
 */
public final class Interrupts {
  private Interrupts() {}

  /** Whether the present thread must stop waiting. */
  public static boolean pending() {
    return Thread.currentThread().isInterrupted();
  }

  /**
   * Closes something that waits until nothing uses its memory any more: an interrupt from before
   * does not end the wait, and the flag is set again afterwards.
   */
  public static void closeUninterruptibly(Runnable close) {
    boolean interrupted = Thread.interrupted();
    try {
      close.run();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * The error that ends the wait of an operation.
   *
   * @param operation the public operation that waited, for example {@code dispatch}
   * @param phase the phase that waited, for example {@code counts}
   * @param waitedMillis length of the wait in milliseconds
   * @param awaited what the thread waited for, for example {@code rank 1, which is silent}
   */
  public static Ep4jException error(
      String operation, String phase, long waitedMillis, String awaited) {
    return new Ep4jException(
        ErrorCode.OPERATION_INTERRUPTED,
        "%s: the thread was interrupted in phase '%s' after %d ms of waiting for %s: call reset() on all live ranks"
            .formatted(operation, phase, waitedMillis, awaited));
  }
}
