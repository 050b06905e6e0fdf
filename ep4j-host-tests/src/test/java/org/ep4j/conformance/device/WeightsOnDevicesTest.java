package org.ep4j.conformance.device;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.config.WireName;
import org.ep4j.engine.Devices;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.api.Test;

/** A relocation copies in host memory, so it refuses an address of a device. */
class WeightsOnDevicesTest {
  private static final int BYTES = 1000;
  private static final int DEVICE = 1;

  @Test
  void theRankIsRefusedAndTheOthersLearnWhy() {
    ReplicatedPlacement placement = ReplicatedPlacement.of(ExpertPlacement.blocks(4, 2));
    long address = Devices.access(DEVICE).allocate(DEVICE, BYTES);
    try {
      ThreadRanks.run(
          2,
          group -> {
            try (Arena arena = Arena.ofShared()) {
              MemorySegment onHost = arena.allocate(BYTES);
              boolean refused = group.rank() == 1;
              assertThatThrownBy(
                      () ->
                          ExpertRelocation.open(
                              group,
                              placement,
                              local -> refused && local == 1 ? wrapped(address) : onHost,
                              BYTES,
                              WireConfig.builder().wire(WireName.INPROC)))
                  .isInstanceOf(
                      refused ? InvalidArgumentException.class : EngineUnavailableException.class)
                  .hasMessageContaining(refused ? "EP4J-1025: " : "rank 1: EP4J-1025: ")
                  .hasMessageContaining("slots.of(1) = 1000 bytes of device 1; it must be native")
                  .hasMessageContaining("copy the weights to the host");
            }
          });
    } finally {
      Devices.access(DEVICE).free(DEVICE, address);
    }
  }

  /** As a program wraps an address that another library has allocated. */
  @SuppressWarnings("restricted") // nothing reads it
  private static MemorySegment wrapped(long address) {
    return MemorySegment.ofAddress(address).reinterpret(BYTES);
  }
}
