package org.ep4j.conformance;

import org.junit.jupiter.api.Assumptions;

/**
 * How much the kits try. By default a part that fits into a build, always the same; with the system
 * property {@code ep4j.full=true}, which the Maven profile {@code full} sets, all of it.
 */
public final class TestScale {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");

  /** A kit's random cases are independent: a part of them walks the same code. */
  private static final int PART = 3;

  private TestScale() {}

  /**
   * Where random tests begin: the system property {@code ep4j.seed}, by default always the same.
   */
  public static long seed() {
    return Long.getLong("ep4j.seed", 1);
  }

  /** Skips what only a full run tries, and says so. */
  static void onlyInFull(String why) {
    Assumptions.assumeTrue(FULL, why + "; -Dep4j.full=true runs it");
  }

  /** How many of {@code full} random cases to try: at least one. */
  public static int part(int full) {
    return FULL ? full : Math.ceilDiv(full, PART);
  }

  /** {@code full} in a full run, else {@code usual}. */
  public static int of(int usual, int full) {
    return FULL ? full : usual;
  }
}
