package org.ep4j.jlama;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Moments of a rank's decode steps, in nanoseconds of {@link System#nanoTime()}, which all
 * processes of a host share. A step is: its begin, {@link #AGREEMENT} words of the agreement,
 * {@link #LAYER} words of each layer, its end.
 */
final class StepLog {
  /** Entry, exit. */
  static final int AGREEMENT = 2;

  /** Words of a layer; the constants from here on are their places. */
  static final int LAYER = 8;

  static final int ENTRY = 0;

  /** Bit r: rank r has an expert of this rank's token. */
  static final int SOURCES = 1;

  static final int DISPATCH_ENTRY = 2;
  static final int DISPATCH_EXIT = 3;

  static final int COMBINE_ENTRY = 4;
  static final int COMBINE_EXIT = 5;
  static final int EXIT = 6;

  /** A duration: what the local experts computed. */
  static final int EXPERTS = 7;

  private long[] words = new long[1024];
  private int length;

  void now() {
    add(System.nanoTime());
  }

  void add(long word) {
    if (length == words.length) {
      words = Arrays.copyOf(words, 2 * length);
    }
    words[length++] = word;
  }

  void clear() {
    length = 0;
  }

  byte[] toBytes() {
    ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES * length);
    bytes.asLongBuffer().put(words, 0, length);
    return bytes.array();
  }

  /** The steps in {@link #toBytes()}. */
  static long[][] steps(byte[] bytes, int layers) {
    int size = 1 + AGREEMENT + layers * LAYER + 1;
    if (bytes.length % (Long.BYTES * size) != 0) {
      throw new IllegalStateException(bytes.length + " bytes are no steps of " + size + " words");
    }
    var words = ByteBuffer.wrap(bytes).asLongBuffer();
    long[][] steps = new long[words.remaining() / size][size];
    for (long[] step : steps) {
      words.get(step);
    }
    return steps;
  }
}
