package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.config.WireName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.engine.Devices;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.relocation.ExpertRelocation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.api.Test;

/** Relocations of experts whose weights are in memory of the driver. */
@OnFakeDriver
class WeightsOnDevicesTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** Two puts. */
  private static final int BYTES = (1 << 20) + 1000;

  private static final ReplicatedPlacement PLAIN =
      ReplicatedPlacement.of(ExpertPlacement.blocks(2, 2));

  private static final ReplicatedPlacement SWAPPED =
      ReplicatedPlacement.of(ExpertPlacement.blocks(2, 2), new int[] {1, 0}, 2);

  /** Slots are inside of one allocation, as in memory of a framework. */
  @Test
  void exchangedWeightsPassTheDriverOnceInEachDirection() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 2 * BYTES)) {
      for (int rank = 0; rank < 2; rank++) {
        byte[] weights = new byte[BYTES];
        Arrays.fill(weights, (byte) (5 + rank));
        long slot = memory.address() + (long) rank * BYTES;
        Devices.access(0).copyFromHost(0, slot, MemorySegment.ofArray(weights));
      }
      FakeDriver.forgetCalls();
      ThreadRanks.run(2, group -> exchange(group, memory.address() + (long) group.rank() * BYTES));

      assertThat(copied("cuMemcpyDtoH_v2")).isEqualTo(2 * BYTES);
      assertThat(copied("cuMemcpyHtoD_v2")).isEqualTo(2 * BYTES);
      byte[] both = new byte[2 * BYTES];
      Devices.access(0).copyToHost(0, memory.address(), MemorySegment.ofArray(both));
      assertThat(Arrays.copyOf(both, BYTES)).containsOnly(6);
      assertThat(Arrays.copyOfRange(both, BYTES, 2 * BYTES)).containsOnly(5);
      assertThat(FakeDriver.misuse()).isEmpty();
    }
  }

  private static long copied(String function) {
    return FakeDriver.calls(function).stream().mapToLong(call -> call.argument(2)).sum();
  }

  @SuppressWarnings("restricted") // as a program wraps an address of another library
  private static void exchange(Group group, long slot) {
    try (ExpertRelocation relocation =
        ExpertRelocation.open(
            group,
            PLAIN,
            _ -> MemorySegment.ofAddress(slot).reinterpret(BYTES),
            BYTES,
            WireConfig.builder().wire(WireName.INPROC))) {
      assertThat(relocation.begin(SWAPPED, TIMEOUT)).isEqualTo(2);
      relocation.commit(TIMEOUT);
    }
  }
}
