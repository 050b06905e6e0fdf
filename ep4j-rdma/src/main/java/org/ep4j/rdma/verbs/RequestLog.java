package org.ep4j.rdma.verbs;

import org.jspecify.annotations.Nullable;

/**
 * The requests of a queue pair until they are known to have taken effect, numbered from 1. Two
 * counters follow {@link #posted}: {@code done} counts requests that the device has completed,
 * whose local bytes have left; {@code applied} counts requests that have taken effect at the peer:
 * the request is done, and the peer has handled its receive, if it uses one.
 */
final class RequestLog {
  private final int mask;
  private final @Nullable VerbsLane[] lane;
  private final long[] work;
  private final long[] message;

  private long posted;
  private long done;
  private long applied;
  private long messages;

  /** A log for a queue pair that holds {@code depth} requests in each direction. */
  RequestLog(int depth) {
    int capacity = Integer.highestOneBit(2 * depth) << 1;
    mask = capacity - 1;
    lane = new VerbsLane[capacity];
    work = new long[capacity];
    message = new long[capacity];
  }

  /** Number of the next request. */
  long next() {
    return posted + 1;
  }

  /** Requests in the device. */
  int inFlight() {
    return (int) (posted - done);
  }

  /** Whether two more requests fit. */
  boolean space() {
    return posted - applied < mask;
  }

  /** Number of requests that use a receive of the peer. */
  long messages() {
    return messages;
  }

  boolean settled() {
    return applied == posted;
  }

  /**
   * Adds a request.
   *
   * @param of the lane; null for a request of the wire itself
   * @param completes number of the work of the lane that ends with this request; 0 for none
   * @param receives whether it uses a receive of the peer
   */
  void add(@Nullable VerbsLane of, long completes, boolean receives) {
    posted++;
    int at = (int) posted & mask;
    lane[at] = of;
    work[at] = completes;
    if (receives) {
      messages++;
    }
    message[at] = receives ? messages : 0;
  }

  /** The device has completed all requests up to a number. */
  void done(long upTo) {
    while (done < upTo) {
      done++;
      int at = (int) done & mask;
      VerbsLane of = lane[at];
      if (of != null && work[at] != 0) {
        of.left(work[at]);
      }
    }
  }

  long done() {
    return done;
  }

  /**
   * The peer has handled {@code handled} receives.
   *
   * @return number of requests newly known to have taken effect
   */
  int apply(long handled) {
    long before = applied;
    while (applied < done) {
      int at = (int) (applied + 1) & mask;
      if (message[at] > handled) {
        break;
      }
      VerbsLane of = lane[at];
      if (of != null && work[at] != 0) {
        of.delivered(work[at]);
      }
      lane[at] = null;
      applied++;
    }
    return (int) (applied - before);
  }

  /** Number of the last request. */
  long posted() {
    return posted;
  }

  /**
   * The queue pair has stopped, and {@code handled} is the final count of the peer. A handled
   * message and all requests before it are done, even if the device did not report them.
   */
  void settle(long handled) {
    for (long request = posted; request > done; request--) {
      long number = message[(int) request & mask];
      if (number != 0 && number <= handled) {
        done(request);
        break;
      }
    }
    apply(handled);
    // The other queue pairs post the rest again.
    done = posted;
    applied = posted;
  }
}
