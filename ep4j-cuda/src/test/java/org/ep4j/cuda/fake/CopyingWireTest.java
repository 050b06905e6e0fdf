package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Random;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.internode.CopyingWireProvider;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.junit.jupiter.api.Test;

/** The wire {@code copying} between two GPUs. */
@OnFakeDriver
class CopyingWireTest {
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** More than a lane copies in two rounds, and no multiple of it. */
  private static final int LARGE = 600_001;

  @Test
  void noCopyNamesMemoryOfTwoGpus() {
    ThreadRanks.run(2, CopyingWireTest::exchange);
    assertThat(FakeDriver.calls("cuMemcpyDtoHAsync_v2")).isNotEmpty();
    assertThat(FakeDriver.calls("cuMemcpyAsync")).isEmpty();
  }

  /** Each rank puts a large and a small piece into the other's memory and counts them. */
  private static void exchange(Group group) {
    int peer = 1 - group.rank();
    try (CudaDevice device = CudaDevice.open(group.rank());
        DeviceMemory memory = DeviceMemory.allocate(device, 2 * LARGE);
        Wire wire = open(group)) {
      device.makeCurrent();
      memory.copyFrom(0, MemorySegment.ofArray(bytesOf(group.rank())));
      Region region =
          wire.expose(
              WireMemory.device(
                  memory.address(), memory.bytes(), device.ordinal(), WireMemory.NO_DMA_BUF),
              LIMIT);
      Lane lane = wire.lane(peer, 0);
      assertThat(lane.put(region, 0, region, LARGE, LARGE - 7, 0)).isPositive();
      assertThat(lane.put(region, LARGE - 7, region, 2 * LARGE - 7, 7, 0)).isPositive();
      assertThat(lane.add(0, 40)).isPositive();
      long deadline = System.nanoTime() + LIMIT.toNanos();
      while (wire.counters().get(0) < 42 || !lane.flush()) {
        wire.poll(0);
        assertThat(System.nanoTime()).isLessThan(deadline);
      }
      group.barrier(LIMIT);
      byte[] received = new byte[LARGE];
      memory.copyTo(LARGE, MemorySegment.ofArray(received));
      assertThat(received).isEqualTo(bytesOf(peer));
    }
  }

  private static Wire open(Group group) {
    WireConfig config =
        WireConfig.builder()
            .counters(1)
            .lanes(1)
            .timeout(LIMIT)
            .affinity(DeviceProperties.of(group.rank()).pciBusId())
            .build();
    return new CopyingWireProvider().open(group, config);
  }

  private static byte[] bytesOf(int rank) {
    byte[] bytes = new byte[LARGE];
    new Random(rank).nextBytes(bytes);
    return bytes;
  }
}
