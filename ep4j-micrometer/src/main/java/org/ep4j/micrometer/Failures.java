package org.ep4j.micrometer;

import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.PeerTimeoutException;

/** Counts calls that ended in an error of a peer, the machine or a library. Any thread. */
final class Failures {
  private final AtomicLong timeouts = new AtomicLong();
  private final AtomicLong others = new AtomicLong();

  /** The rank that the last timeout named; NaN before. */
  private volatile double timeoutPeer = Double.NaN;

  /** Counts the error and returns it. Errors of the caller, such as bad arguments, do not count. */
  RuntimeException count(RuntimeException error) {
    if (error instanceof PeerTimeoutException timeout) {
      timeoutPeer = timeout.peer();
      timeouts.incrementAndGet();
    } else if (error instanceof Ep4jException) {
      others.incrementAndGet();
    }
    return error;
  }

  double timeouts() {
    return timeouts.get();
  }

  double others() {
    return others.get();
  }

  double timeoutPeer() {
    return timeoutPeer;
  }
}
