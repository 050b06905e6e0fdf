package org.ep4j.observe;

import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.error.PeerTimeoutException;

/**
 * Operations of one rank that ended in {@link PeerTimeoutException}, asynchronous ones too. Any
 * thread.
 */
public final class TimeoutLog {
  /** The peer while there is no timeout. */
  static final int NONE = -1;

  private final int rank;
  private final AtomicLong count = new AtomicLong();

  /** The rank that the last timeout named. Written before the count, read after it. */
  private volatile int peer = NONE;

  /** No timeouts of {@code rank}. */
  public TimeoutLog(int rank) {
    this.rank = rank;
  }

  /** Counts the end of an operation, and records it as a {@link TimeoutEvent}. */
  public void record(PeerTimeoutException cause) {
    TimeoutEvent.record(rank, cause);
    peer = cause.peer();
    count.incrementAndGet();
  }

  /** The rank that counts. */
  public int rank() {
    return rank;
  }

  long count() {
    return count.get();
  }

  int peer() {
    return peer;
  }
}
