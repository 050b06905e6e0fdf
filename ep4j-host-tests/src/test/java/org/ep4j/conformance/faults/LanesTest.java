package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.conformance.round.VerifiedRound;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The host engine across nodes with any number of lanes: fewer and more than slots of a ring. */
class LanesTest {
  private static final int RANKS = 4;

  /** More chunks and low-latency operations than lanes and slots. */
  private static final int ROUNDS = 10;

  private static BufferConfig.Builder config(String wire) {
    return VerifiedRound.shape(BufferConfig.builder(), true)
        .engine(EngineName.HOST)
        .ranksPerNode(2)
        .wire(wire)
        .timeout(Duration.ofSeconds(60));
  }

  private static WireOptions lanes(int lanes) {
    return WireOptions.builder().lanes(lanes).build();
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3, 8, 11})
  void resultsDoNotDependOnTheNumberOfLanes(int lanes) {
    rounds(config(WireName.TCP).wireOptions(lanes(lanes)).build(), lanes);
  }

  /** Lanes run at different speeds, and puts overtake each other. */
  @ParameterizedTest
  @ValueSource(ints = {1, 3, 11})
  void lanesMayOvertakeEachOther(int lanes) {
    rounds(config(FaultyWireProvider.NAME).wireOptions(lanes(lanes)).build(), lanes);
  }

  @Test
  void aWireThatChoosesNoNumberHasFourLanes() {
    rounds(config(WireName.TCP).build(), 4);
  }

  private static void rounds(BufferConfig config, int lanes) {
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            assertThat(buffer.config().wireOptions().lanes()).hasValue(lanes);
            for (int round = 0; round < ROUNDS; round++) {
              VerifiedRound.operate(buffer, TestScale.seed() + round, -1);
            }
          }
        });
  }

  @Test
  void ranksWithDifferentNumbersAreRefused() {
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(
                    () ->
                        ExpertBuffer.open(
                            group,
                            config(WireName.TCP)
                                .ranksPerNode(1)
                                .wireOptions(lanes(2 + group.rank()))
                                .build()))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("lanes=2")
                .hasMessageContaining("lanes=3"));
  }
}
