package org.ep4j.rdma.verbs;

import org.jspecify.annotations.Nullable;

/**
 * What a queue pair was asked to do, request by request, until it is known to have taken effect.
 * Requests are numbered from 1. Two counts run behind {@link #posted}: {@code done}, what the
 * device has reported, so that local bytes have left; and {@code applied}, what has taken effect at
 * the peer: the request is done and, if it uses up a receive, the peer has handled that.
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

  /** Requests that the device holds. */
  int inFlight() {
    return (int) (posted - done);
  }

  /** Whether two more requests can be written down. */
  boolean space() {
    return posted - applied < mask;
  }

  /** Requests so far that use up a receive of the peer. */
  long messages() {
    return messages;
  }

  boolean settled() {
    return applied == posted;
  }

  /**
   * Writes down a request.
   *
   * @param of the lane; null for one of the wire itself
   * @param completes number of the lane's work that ends with it; 0 for none
   * @param receives whether it uses up a receive of the peer
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

  /** The device has done everything up to a request. */
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
   * The peer has handled so many of its receives.
   *
   * @return how many requests are now known to have taken effect
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
   * The queue pair has stopped, and the peer has handled so many of its receives in the end. A
   * message that was handled is done, and all before it, even if the device could not say so.
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
    // The rest belongs to nobody here any more.
    done = posted;
    applied = posted;
  }
}
