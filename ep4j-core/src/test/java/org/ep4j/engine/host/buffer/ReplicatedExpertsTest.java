package org.ep4j.engine.host.buffer;

import java.util.Arrays;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.relocation.ExactSteps;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.junit.jupiter.api.Test;

/** Replicas compute what their expert computes. */
class ReplicatedExpertsTest {
  private static final int RANKS = 4;
  private static final int EXPERTS = 8;
  private static final int REPLICAS = 4;

  @Test
  void oneBufferServesEveryBalancedPlacementWithTheSameResults() {
    BufferConfig config = ExactSteps.config(ExpertPlacement.blocks(EXPERTS + REPLICAS, RANKS));
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            for (int step = 0; step < 4; step++) {
              ReplicatedPlacement placed = ExpertPlacement.balance(load(step), RANKS, REPLICAS);
              ExactSteps.run(
                  buffer,
                  placed,
                  group.rank(),
                  step,
                  local -> placed.logicalOf(placed.placement().expertAt(group.rank(), local)));
            }
          }
        });
  }

  private static long[] load(int step) {
    long[] load = new long[EXPERTS];
    Arrays.setAll(load, e -> 1 + 100 / (1 + Math.floorMod(e - 3 * step, EXPERTS)));
    return load;
  }
}
