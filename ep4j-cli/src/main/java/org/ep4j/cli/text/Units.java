package org.ep4j.cli.text;

import java.util.Locale;

/** Formats numbers, independent of the locale. */
public final class Units {
  private static final String[] BINARY = {"B", "KiB", "MiB", "GiB", "TiB"};

  private Units() {}

  /** Bytes with a binary unit: {@code 211.4 MiB}. */
  public static String bytes(long bytes) {
    double value = bytes;
    int unit = 0;
    while (value >= 1024 && unit < BINARY.length - 1) {
      value /= 1024;
      unit++;
    }
    return unit == 0 ? bytes + " B" : fixed(value, value < 100 ? 1 : 0) + " " + BINARY[unit];
  }

  /** Microseconds with significant digits, in a unit that fits the size; a dash for NaN. */
  public static String micros(double us) {
    if (Double.isNaN(us)) {
      return "-";
    }
    if (us >= 1e6) {
      return significant(us / 1e6) + " s";
    }
    return us >= 1e3 ? significant(us / 1e3) + " ms" : significant(us) + " us";
  }

  /** Three digits or more: {@code 1234}, {@code 12.3}, {@code 1.23}. */
  public static String significant(double value) {
    double size = Math.abs(value);
    return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  }

  /** A fixed number of decimals. */
  public static String fixed(double value, int decimals) {
    return String.format(Locale.ROOT, "%." + decimals + "f", value);
  }
}
