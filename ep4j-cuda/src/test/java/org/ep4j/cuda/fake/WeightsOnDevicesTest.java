package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.config.WireName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.engine.Devices;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.api.Test;

/** Relocations of experts ask the driver where weights lie. */
@OnFakeDriver
class WeightsOnDevicesTest {
  private static final int BYTES = 1000;

  @Test
  void weightsInDeviceMemoryAreRefused() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 2 * BYTES)) {
      assertThatThrownBy(() -> open(wrapped(memory.address() + BYTES)))
          .cause()
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageStartingWith("EP4J-1025: slots.of(0) = 1000 bytes of device 0; ");
    }
  }

  @Test
  void memoryOfTheHostIsNoDevice() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, BYTES);
        Arena arena = Arena.ofShared()) {
      assertThat(Devices.deviceOf(memory.address())).hasValue(0);
      MemorySegment onHost = arena.allocate(BYTES);
      assertThat(Devices.deviceOf(onHost.address())).isEmpty();
      open(onHost);
    }
  }

  private static void open(MemorySegment slot) {
    ThreadRanks.run(
        1,
        group ->
            ExpertRelocation.open(
                    group,
                    ReplicatedPlacement.of(ExpertPlacement.blocks(1, 1)),
                    _ -> slot,
                    BYTES,
                    WireConfig.builder().wire(WireName.INPROC))
                .close());
  }

  @SuppressWarnings("restricted") // nothing reads it
  private static MemorySegment wrapped(long address) {
    return MemorySegment.ofAddress(address).reinterpret(BYTES);
  }
}
