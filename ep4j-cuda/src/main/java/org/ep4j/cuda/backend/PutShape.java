package org.ep4j.cuda.backend;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Shape of the memory that kernels put into, equal on all ranks.
 *
 * @param bytes bytes of each rank's memory, a multiple of 256, at most 64 GiB
 * @param lanes ordered streams of puts, each used by one warp at a time
 * @param signals words that count arrived data
 */
public record PutShape(long bytes, int lanes, int signals) {
  /** Largest offset that commands to the proxy can encode. */
  public static final long MAX_BYTES = 64L << 30;

  private static final long UNIT = 256;

  /** Largest number of lanes. */
  public static final int MAX_LANES = 1024;

  private static final int MAX_SIGNALS = 1 << 14;

  /** Checks the values. */
  public PutShape {
    if (bytes <= 0 || bytes % UNIT != 0 || bytes > MAX_BYTES) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          "bytes",
          String.valueOf(bytes),
          "a multiple of " + UNIT + ", at most " + MAX_BYTES,
          "round it up, or open memory several times");
    }
    range("lanes", lanes, MAX_LANES);
    range("signals", signals, MAX_SIGNALS);
  }

  private static void range(String field, int value, int max) {
    if (value < 1 || value > max) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_SHAPE,
          field,
          String.valueOf(value),
          "1.." + max,
          "use one lane per warp and one signal per lane");
    }
  }

  /** Offset of the words of signals. */
  public long signalWords() {
    return bytes;
  }

  /** Total bytes, including the words of signals. */
  public long regionBytes() {
    return bytes + signals * (long) Long.BYTES;
  }
}
