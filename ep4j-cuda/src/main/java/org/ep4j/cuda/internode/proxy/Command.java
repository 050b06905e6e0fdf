package org.ep4j.cuda.internode.proxy;

/**
 * The two words of a command in the layout of {@code kernels/transport/command_ring.cuh}; offsets
 * and lengths are in units of 16 bytes.
 */
final class Command {
  static final int BYTES = 16;
  static final int UNIT = 16;
  static final int PUT = 1;
  static final int ADD = 2;
  static final int FLUSH = 3;
  static final int LENGTH_SHIFT = 32;
  static final int LANE_SHIFT = 52;
  static final int OPERATION_SHIFT = 60;
  static final int COUNTER_SHIFT = 32;
  static final int DESTINATION_SHIFT = 51;

  private static final long LONGEST = 0xfffff;

  /** Largest number of bytes of a put. */
  static final long MAX_PUT = LONGEST * UNIT;

  /** Counter number of an uncounted put. */
  static final int NO_COUNTER = (1 << 19) - 1;

  private static final long LOW = 0xffff_ffffL;

  private Command() {}

  static int operation(long first) {
    return (int) (first >>> OPERATION_SHIFT) & 7;
  }

  static int lane(long first) {
    return (int) (first >>> LANE_SHIFT) & 0xff;
  }

  static long source(long first) {
    return (first & LOW) * UNIT;
  }

  static long bytes(long first) {
    return (first >>> LENGTH_SHIFT & LONGEST) * UNIT;
  }

  static long target(long second) {
    return (second & LOW) * UNIT;
  }

  static int counter(long second) {
    return (int) (second >>> COUNTER_SHIFT) & NO_COUNTER;
  }

  static int destination(long second) {
    return (int) (second >>> DESTINATION_SHIFT) & 0xfff;
  }

  /** Value of an add. */
  static long value(long first, long second) {
    return first & LOW | second << 32;
  }
}
