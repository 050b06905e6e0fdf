package org.ep4j.conformance.world;

import org.junit.jupiter.api.Assumptions;

/**
 * Size of the test kits. By default a fixed part that fits into a build; with the system property
 * {@code ep4j.full=true}, which the Maven profile {@code full} sets, everything.
 */
public final class TestScale {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");

  /** A kit's random cases are independent: a part of them covers the same code. */
  private static final int PART = 3;

  private TestScale() {}

  /** First seed of random tests: the system property {@code ep4j.seed}; the default is constant. */
  public static long seed() {
    return Long.getLong("ep4j.seed", 1);
  }

  /** Skips a test, with a reason, except in a full run. */
  public static void onlyInFull(String why) {
    Assumptions.assumeTrue(FULL, why + "; -Dep4j.full=true runs it");
  }

  /** Number of random cases of {@code full} to run: at least one. */
  public static int part(int full) {
    return FULL ? full : Math.ceilDiv(full, PART);
  }

  /** {@code full} in a full run, else {@code usual}. */
  public static int of(int usual, int full) {
    return FULL ? full : usual;
  }
}
