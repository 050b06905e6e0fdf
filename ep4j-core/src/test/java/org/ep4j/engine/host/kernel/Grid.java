package org.ep4j.engine.host.kernel;

import java.util.Arrays;

/**
 * A number format by its definition: the magnitudes of its codes in ascending order. Rounding
 * searches the nearest one in double arithmetic, which represents all of them and their midpoints
 * exactly.
 */
record Grid(double[] magnitudes) {
  /** Codes 0 to 0x7F80; infinity is at the value of the next number. */
  static final Grid BF16 = ieee(8, 7);

  /** Codes 0 to 0x7C00. */
  static final Grid FP16 = ieee(5, 10);

  /** Codes 0 to 0x7E, saturating. */
  static final Grid E4M3 = new Grid(Arrays.copyOf(ieee(4, 3).magnitudes, 0x7F));

  /** Codes 0 to 7, saturating. */
  static final Grid E2M1 = new Grid(new double[] {0, 0.5, 1, 1.5, 2, 3, 4, 6});

  /** All codes up to and including infinity; E4M3 has numbers in the last binade too. */
  private static Grid ieee(int exponentBits, int mantissaBits) {
    int bias = (1 << exponentBits - 1) - 1;
    int codes = ((1 << exponentBits) - 1 << mantissaBits) + 1;
    boolean finite = exponentBits == 4;
    double[] magnitudes = new double[finite ? codes + (1 << mantissaBits) : codes];
    for (int code = 0; code < magnitudes.length; code++) {
      int exponent = code >>> mantissaBits;
      int mantissa = code & (1 << mantissaBits) - 1;
      double significand = exponent == 0 ? mantissa : mantissa + (double) (1 << mantissaBits);
      magnitudes[code] = Math.scalb(significand, Math.max(exponent, 1) - bias - mantissaBits);
    }
    return new Grid(magnitudes);
  }

  /** Code of the magnitude nearest to that of {@code value}, ties to the even code; no NaN. */
  int nearest(double value) {
    double magnitude = Math.abs(value);
    int above = Arrays.binarySearch(magnitudes, magnitude);
    if (above >= 0) {
      return above;
    }
    above = -above - 1;
    if (above == 0 || above == magnitudes.length) {
      return Math.min(above, magnitudes.length - 1);
    }
    double middle = (magnitudes[above - 1] + magnitudes[above]) / 2;
    if (magnitude == middle) {
      return above - (above & 1);
    }
    return magnitude < middle ? above - 1 : above;
  }

  /** A 16-bit format: code with sign; NaN becomes 0x7FFF. */
  short round16(float value) {
    if (Float.isNaN(value)) {
      return 0x7FFF;
    }
    return (short) (nearest(value) | (Float.floatToRawIntBits(value) >>> 16 & 0x8000));
  }
}
