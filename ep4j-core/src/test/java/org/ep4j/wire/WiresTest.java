package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

class WiresTest {
  @Test
  void ranksSendFromDevicesOfTheirOwn() {
    ThreadRanks.run(
        2,
        group -> {
          String device = "0000:1%d:00.0".formatted(group.rank());
          WireConfig config = WireConfig.builder().wire("inproc").affinity(device).build();
          try (Wire wire = Wires.open(group, config)) {
            assertThat(wire.config().affinity()).isEqualTo(device);
          }
        });
  }

  @Test
  void lanesLeftOpenAreFourOfEachProgressContext() {
    ThreadRanks.run(
        2,
        group -> {
          WireConfig config = WireConfig.builder().wire("inproc").progressContexts(3).build();
          try (Wire wire = Wires.open(group, config)) {
            assertThat(wire.config().lanes()).isEqualTo(12);
          }
        });
  }

  @Test
  void otherDifferencesAreNamed() {
    ThreadRanks.run(
        2,
        group -> {
          WireConfig config =
              WireConfig.builder().wire("inproc").lanes(1 + group.rank()).affinity("x").build();
          assertThatThrownBy(() -> Wires.open(group, config))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageContaining("lanes=")
              .hasMessageNotContaining("affinity=");
        });
  }
}
