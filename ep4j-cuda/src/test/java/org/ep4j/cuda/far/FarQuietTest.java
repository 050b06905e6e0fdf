package org.ep4j.cuda.far;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.SplittableRandom;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Real wires, given work as a proxy gives it. */
class FarQuietTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);
  private static final int LANES = 4;
  private static final int STRANDS = 2;
  private static final int ARRIVED = 0;
  private static final int QUIET = 1;
  private static final int BYTES = 4096;
  private static final int MOST_PUTS = 300;

  private static Wire wire(Group group, String name) {
    return Wires.open(
        group,
        WireConfig.builder()
            .wire(name)
            .lanes(LANES)
            .strands(STRANDS)
            .counters(2)
            .timeout(PATIENCE)
            .build());
  }

  @ParameterizedTest
  @CsvSource({"inproc, 2", "inproc, 4", "tcp, 2", "tcp, 3"})
  void allThatWasGivenToLanesHasComeThen(String name, int ranks) {
    long seed = System.nanoTime();
    System.out.printf("FarQuietTest, %s, %d ranks: seed %d%n", name, ranks, seed);
    ThreadRanks.run(
        ranks,
        group -> {
          try (Wire wire = wire(group, name)) {
            Region region = wire.allocate((long) ranks * BYTES, PATIENCE);
            for (int round = 1; round <= 5; round++) {
              begun(group, wire, region, seed + round);
              assertThat(new FarQuiet(wire, QUIET, 1, PATIENCE).await()).isEmpty();
              group.barrier(PATIENCE);
              hasCome(wire, region, seed + round);
              clear(wire.counters());
              group.barrier(PATIENCE);
            }
          }
        });
  }

  /** Who asks again without having begun anew waits for as many last words again. */
  @Test
  void itMayBeAskedSeveralTimes() {
    ThreadRanks.run(
        3,
        group -> {
          try (Wire wire = wire(group, "inproc")) {
            for (int time = 1; time <= 3; time++) {
              assertThat(new FarQuiet(wire, QUIET, time, PATIENCE).await()).isEmpty();
              assertThat(wire.counters().get(QUIET)).isEqualTo(2L * LANES * time);
              group.barrier(PATIENCE);
            }
          }
        });
  }

  @ParameterizedTest
  @CsvSource({"inproc", "tcp"})
  void aWireThatHasFailedIsTold(String name) {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, name)) {
            if (group.rank() == 1) {
              return;
            }
            assertThat(new FarQuiet(wire, QUIET, 1, PATIENCE).await()).contains("failed");
          }
        });
  }

  @Test
  void whoNeverComesIsAwaitedNoLongerThanTheDeadline() {
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = wire(group, "inproc")) {
            if (group.rank() == 0) {
              assertThat(new FarQuiet(wire, QUIET, 1, Duration.ofMillis(200)).await())
                  .isEqualTo("of 4 last words of lanes 0 have come in time");
            }
            group.barrier(PATIENCE);
          }
        });
  }

  /** Puts of one round from a rank to another. */
  private static int puts(long seed, int from, int to) {
    return new SplittableRandom(seed * 31 + from * 8L + to).nextInt(MOST_PUTS);
  }

  private static void begun(Group group, Wire wire, Region region, long seed) {
    int rank = group.rank();
    // The source lies where this rank's bytes lie in the memory of all.
    long at = (long) rank * BYTES;
    region.segment().asSlice(at, BYTES).fill((byte) seed);
    for (int peer = 0; peer < group.size(); peer++) {
      for (int i = 0; peer != rank && i < puts(seed, rank, peer); i++) {
        Lane lane = wire.lane(peer, i % LANES);
        while (lane.put(region, at, region, at, BYTES, ARRIVED) == Lane.BACK_PRESSURED) {
          for (int strand = 0; strand < STRANDS; strand++) {
            wire.poll(strand);
          }
        }
      }
    }
  }

  private static void hasCome(Wire wire, Region region, long seed) {
    long wanted = 0;
    for (int peer = 0; peer < wire.size(); peer++) {
      int puts = peer == wire.rank() ? 0 : puts(seed, peer, wire.rank());
      wanted += puts;
      for (long i = 0; puts > 0 && i < BYTES; i++) {
        byte found = region.segment().get(ValueLayout.JAVA_BYTE, (long) peer * BYTES + i);
        assertThat(found).as("byte %d of rank %d", i, peer).isEqualTo((byte) seed);
      }
    }
    assertThat(wire.counters().get(ARRIVED)).isEqualTo(wanted);
  }

  private static void clear(Counters counters) {
    counters.add(ARRIVED, -counters.get(ARRIVED));
    counters.add(QUIET, -counters.get(QUIET));
  }
}
