package org.ep4j.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Weights move between processes, which share no heap and no counters. */
class ExpertRelocationOnProcessesTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);
  private static final int RANKS = 3;
  private static final int EXPERTS = 12;
  private static final int REPLICAS = 3;

  /** Four puts, the last one short. */
  private static final long EXPERT_BYTES = (3L << 20) + 777;

  /** Three placements, one after the other; argument: the wire. */
  static final class MoveJob implements RankJob {
    @Override
    public void run(Group group, List<String> arguments) {
      ReplicatedPlacement first = balanced(0);
      try (Arena arena = Arena.ofShared()) {
        MemorySegment[] slots = new MemorySegment[first.placement().localExperts(group.rank())];
        for (int local = 0; local < slots.length; local++) {
          slots[local] = arena.allocate(EXPERT_BYTES, 64);
          long expert = expert(first, group.rank(), local);
          for (long at = 0; at < EXPERT_BYTES; at++) {
            slots[local].set(ValueLayout.JAVA_BYTE, at, weight(expert, at));
          }
        }
        WireConfig.Builder wire = WireConfig.builder().wire(arguments.getFirst());
        try (ExpertRelocation relocation =
            ExpertRelocation.open(group, first, local -> slots[local], EXPERT_BYTES, wire)) {
          for (int round = 1; round <= 3; round++) {
            move(relocation, balanced(round), group.rank(), slots);
          }
        }
      }
    }

    private static void move(
        ExpertRelocation relocation, ReplicatedPlacement next, int rank, MemorySegment[] slots) {
      if (relocation.begin(next, TIMEOUT) == 0) {
        throw new AssertionError("the placement does not change: nothing is tested");
      }
      relocation.advance();
      assertEquals(next, relocation.commit(TIMEOUT));
      for (int local = 0; local < slots.length; local++) {
        int expert = expert(next, rank, local);
        for (long at = 0; at < EXPERT_BYTES; at++) {
          if (slots[local].get(ValueLayout.JAVA_BYTE, at) != weight(expert, at)) {
            throw new AssertionError(
                "byte %d of slot %d of rank %d is not that of expert %d"
                    .formatted(at, local, rank, expert));
          }
        }
      }
    }

    private static int expert(ReplicatedPlacement placement, int rank, int local) {
      return placement.logicalOf(placement.placement().expertAt(rank, local));
    }

    private static byte weight(long expert, long at) {
      return (byte) (expert + 31 * at + (at >> 9));
    }

    /** Every round other experts are hot. */
    private static ReplicatedPlacement balanced(int round) {
      long[] load = new long[EXPERTS];
      Arrays.setAll(load, e -> 1 + 1000 / (1 + Math.floorMod(e - 5 * round, EXPERTS)));
      return ExpertPlacement.balance(load, RANKS, REPLICAS);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {WireName.SHM, WireName.TCP})
  void weightsMove(String wire) {
    new ProcessWorld().run(RANKS, MoveJob.class, List.of(wire));
  }
}
