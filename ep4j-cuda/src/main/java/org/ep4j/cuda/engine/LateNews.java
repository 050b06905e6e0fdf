package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Listens for a moment before somebody is blamed. A wait that ends before its deadline was cut
 * short, because a rank is lost or because the others have lost this one; but what cuts it short
 * can be here before it is known who is lost: a wire notices at once that a connection was closed,
 * the group only when its rendezvous has said so.
 */
final class LateNews {
  /** Far more than the group takes to tell, and little beside what it takes to lose a rank. */
  private static final Duration MOST = Duration.ofSeconds(1);

  private static final long LOOK_NANOS = 1_000_000;

  private LateNews() {}

  /** Waits until somebody is known to be lost, for a second at most. */
  static void await(BooleanSupplier known) {
    await(known, MOST);
  }

  static void await(BooleanSupplier known, Duration most) {
    long deadline = System.nanoTime() + most.toNanos();
    while (!known.getAsBoolean() && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }
}
