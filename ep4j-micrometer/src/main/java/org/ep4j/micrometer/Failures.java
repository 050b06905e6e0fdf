package org.ep4j.micrometer;

import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.PeerTimeoutException;

/**
 * Counts calls that ended in an error of the machine or a library. Timeouts, which the buffer
 * counts, and errors of the caller, such as bad arguments, do not count. Any thread.
 */
final class Failures {
  private final AtomicLong counted = new AtomicLong();

  /** Counts the error and returns it. */
  RuntimeException count(RuntimeException error) {
    if (error instanceof Ep4jException && !(error instanceof PeerTimeoutException)) {
      counted.incrementAndGet();
    }
    return error;
  }

  double counted() {
    return counted.get();
  }
}
