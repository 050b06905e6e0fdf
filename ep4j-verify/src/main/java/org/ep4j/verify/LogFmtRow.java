package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Effect of LogFMT-10 on a BF16 row: each value becomes the value of its code, or stays unchanged
 * if its chunk cannot be packed. Packing does not change the result and is left out.
 */
final class LogFmtRow {
  private static final int GROUP = 128;
  private static final int ONE = 0x3F80;
  private static final int REACH = 32 * 128;
  private static final int SMALLEST_NORMAL = 128;

  /** log2(1 + f) / f, in ascending powers. */
  private static final float[] LOG = {
    0x1.714b70p0f, -0x1.6fcc30p-1f, 0x1.d5abb8p-2f, -0x1.1f2b7ep-2f, 0x1.fd72b4p-4f, -0x1.b73374p-6f
  };

  /** 2^r, in ascending powers. */
  private static final float[] EXP = {
    1, 0x1.62e12cp-1f, 0x1.ec0378p-3f, 0x1.c9fc5ap-5f, 0x1.3a02e0p-7f
  };

  private static final float MINUS_LN2_8TH = -0x1.62e430p-4f;

  private LogFmtRow() {}

  /**
   * Encodes and decodes a row.
   *
   * @param row BF16
   * @param received receives the decoded row, BF16
   */
  static void send(MemorySegment row, MemorySegment received) {
    int hidden = (int) (row.byteSize() / 2);
    int chunk = hidden % 1024 == 0 ? 1024 : hidden % 512 == 0 ? 512 : GROUP;
    MemorySegment.copy(row, 0, received, 0, row.byteSize());
    for (int from = 0; from < hidden; from += chunk) {
      boolean packable = true;
      for (int g = from; g < from + chunk; g += GROUP) {
        packable &= new Group(row, g).packable();
      }
      for (int g = from; packable && g < from + chunk; g += GROUP) {
        new Group(row, g).send(row, received);
      }
    }
  }

  private static float polynomial(float[] coefficients, float x) {
    float value = coefficients[coefficients.length - 1];
    for (int i = coefficients.length - 2; i >= 0; i--) {
      value = Math.fma(value, x, coefficients[i]);
    }
    return value;
  }

  private static int magnitude(MemorySegment row, int i) {
    return row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i) & 0x7FFF;
  }

  /** 128 values that share a range. */
  private static final class Group {
    private final int start;
    private final int max;
    private final int floor;

    Group(MemorySegment row, int start) {
      this.start = start;
      int least = Integer.MAX_VALUE;
      int maximum = 0;
      for (int i = start; i < start + GROUP; i++) {
        least = Math.min(least, magnitude(row, i));
        maximum = Math.max(maximum, magnitude(row, i));
      }
      max = maximum;
      floor = Math.max(Math.max(least, maximum - REACH), SMALLEST_NORMAL);
    }

    boolean packable() {
      return floor < max && max < ONE;
    }

    /** log2 of a magnitude, relative to the exponent of the floor, plus {@code offset}. */
    private float log(int bits, float offset) {
      float f = (bits % 128) / 128f;
      return (bits / 128 - floor / 128) + Math.fma(f, polynomial(LOG, f), offset);
    }

    void send(MemorySegment row, MemorySegment received) {
      float u0 = log(floor, 0);
      float step = log(max, -u0) / 510;
      float inverse = 1 / step;
      float half = Math.fma(step, MINUS_LN2_8TH, 1);
      for (int i = start; i < start + GROUP; i++) {
        float rounded =
            (float) Math.rint(Math.max(Math.fma(log(magnitude(row, i), -u0), inverse, half), 0));
        int bits = rounded == 0 ? 0 : value(rounded, step, u0);
        int sign = row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i) & 0x8000;
        received.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, (short) (sign | bits));
      }
    }

    /** BF16 bits of a code. */
    private int value(float code, float step, float u0) {
      float y = Math.fma(code, step, u0 - step);
      float n = (float) Math.rint(y);
      float e = polynomial(EXP, y - n);
      int bits = Float.floatToRawIntBits(e) + ((int) n + floor / 128 - 127) * (1 << 23);
      return Floats.toBf16(Float.intBitsToFloat(bits)) & 0xFFFF;
    }
  }
}
