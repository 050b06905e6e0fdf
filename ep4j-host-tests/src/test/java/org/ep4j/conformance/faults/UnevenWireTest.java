package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;

class UnevenWireTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  @Test
  void allRanksGetTheRankWithoutTheWire() {
    WireConfig config = WireConfig.builder().wire(UnevenWireProvider.NAME).timeout(TIMEOUT).build();
    ThreadRanks.run(
        3,
        TIMEOUT.multipliedBy(2),
        group -> {
          assertThatThrownBy(() -> Wires.open(group, config))
              .isInstanceOf(WireException.class)
              .hasMessageStartingWith(ErrorCode.WIRE_UNSUITABLE.id())
              .hasMessageEndingWith(
                  "rank 2: wire 'uneven' cannot connect these ranks:"
                      + " there is no port: load its driver");
          // A rank that finishes early must not close its group while others use it.
          group.barrier(TIMEOUT);
        });
  }
}
