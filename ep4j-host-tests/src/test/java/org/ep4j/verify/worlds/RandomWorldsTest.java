package org.ep4j.verify.worlds;

import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** Random shapes, placements, routings and options against the oracle. */
class RandomWorldsTest {
  private static final int WORLDS = 150;

  @Test
  void everyResultMatchesTheOracle() {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("RandomWorldsTest: seed " + seed);
    run(seed, TestScale.part(WORLDS));
  }

  /** Runs {@code worlds} worlds, starting with {@code seed}. */
  static void run(long seed, int worlds) {
    for (int i = 0; i < worlds; i++) {
      try {
        RandomWorld.small(seed + i).run(ThreadRanks.DEFAULT_LIMIT);
      } catch (RuntimeException | AssertionError e) {
        throw new AssertionError("world of seed " + (seed + i), e);
      }
    }
  }
}
