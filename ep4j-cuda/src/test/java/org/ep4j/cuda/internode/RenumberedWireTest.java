package org.ep4j.cuda.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Objects;
import org.ep4j.config.WireName;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Ranks 0 and 2 of three. */
@Timeout(30)
class RenumberedWireTest {
  private static final int[] NUMBERS = {0, 2};
  private static final int RANKS = 3;
  private static final Duration LIMIT = Duration.ofSeconds(20);

  @Test
  void ranksHaveTheNumbersOfTheBuffer() {
    ThreadRanks.run(
        NUMBERS.length,
        group -> {
          WireConfig config =
              WireConfig.builder().wire(WireName.TCP).counters(RANKS).timeout(LIMIT).build();
          try (Wire wire = new RenumberedWire(Wires.open(group, config), NUMBERS, RANKS)) {
            int rank = NUMBERS[group.rank()];
            int peer = 2 - rank;
            assertThat(wire.size()).isEqualTo(RANKS);
            assertThat(wire.rank()).isEqualTo(rank);
            Lane lane = wire.lane(peer, 0);
            assertThat(lane.peer()).isEqualTo(peer);
            assertThat(lane.add(rank, 1)).isPositive();
            while (!lane.flush() || wire.counters().get(peer) == 0) {
              wire.poll(0);
            }
            assertThat(lane.failure()).isNull();
            group.barrier(LIMIT);
            if (rank == 2) {
              return;
            }
            while (lane.failure() == null) {
              wire.poll(0);
            }
            assertThat(Objects.requireNonNull(lane.failure()).peer()).isEqualTo(2);
          }
        });
  }

  @Test
  void lanesToOtherRanksHaveFailed() {
    ThreadRanks.run(
        NUMBERS.length,
        group -> {
          WireConfig config = WireConfig.builder().wire(WireName.INPROC).timeout(LIMIT).build();
          try (RenumberedWire wire =
              new RenumberedWire(Wires.open(group, config), NUMBERS, RANKS)) {
            assertThat(wire.failedLanes()).isEqualTo(wire.config().lanes());
            assertThat(wire.member(1)).isEqualTo(RenumberedWire.NO_MEMBER);
            assertThat(wire.member(2)).isEqualTo(1);
            Lane missing = wire.lane(1, 0);
            assertThat(missing.add(0, 1)).isEqualTo(Lane.FAILED);
            assertThat(missing.flush()).isTrue();
            assertThat(Objects.requireNonNull(missing.failure()).cause())
                .isEqualTo(LaneFailure.Cause.DEPARTED);
            group.barrier(LIMIT);
          }
        });
  }
}
