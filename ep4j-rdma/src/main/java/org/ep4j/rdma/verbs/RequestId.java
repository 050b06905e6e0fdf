package org.ep4j.rdma.verbs;

/**
 * How a completion finds its way: the number of a request, as the device hands it back. The highest
 * bit tells receives from sends, the next 20 are the queue pair's index in its strand, the others
 * the low bits of the count of the request.
 */
final class RequestId {
  /** Most queue pairs of a strand. */
  static final int MAX_PAIRS = 1 << 20;

  private static final int COUNT_BITS = 43;
  private static final long COUNT = (1L << COUNT_BITS) - 1;

  private RequestId() {}

  static long send(int pair, long count) {
    return (long) pair << COUNT_BITS | count & COUNT;
  }

  static long receive(int pair) {
    return Long.MIN_VALUE | (long) pair << COUNT_BITS;
  }

  static boolean isReceive(long id) {
    return id < 0;
  }

  static int pair(long id) {
    return (int) (id >>> COUNT_BITS) & MAX_PAIRS - 1;
  }

  /** The whole count, which lies above {@code before} by less than the bits can say. */
  static long count(long id, long before) {
    return before + (id - before & COUNT);
  }
}
