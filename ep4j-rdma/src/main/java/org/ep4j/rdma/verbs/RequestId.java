package org.ep4j.rdma.verbs;

/**
 * Request ids, which the device returns in completions. The highest bit distinguishes receives from
 * sends, the next 20 bits are the index of the queue pair in its progress context, the others the
 * low bits of the request number.
 */
final class RequestId {
  /** Maximum number of queue pairs of a progress context. */
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

  /**
   * The full request number, which exceeds {@code before} by less than the range of the low bits.
   */
  static long count(long id, long before) {
    return before + (id - before & COUNT);
  }
}
