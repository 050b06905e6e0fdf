package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import org.ep4j.error.ErrorCode;
import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Memory that ports access and the CPU does not. Instead of GPU memory, the tests use pages that
 * are protected after registration by address, like with nvidia-peermem.
 */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#present", disabledReason = Fabric.REASON)
class VerbsDeviceMemoryTest {
  private static final int SOME_FILE = 0;

  /** The shortest put would be inline, if the CPU could read it. */
  @ParameterizedTest
  @ValueSource(longs = {1, 8, 200, 4096, 3_000_001})
  void putsOfMemoryThatTheCpuCannotAccess(long bytes) throws Exception {
    assumeFalse(SoftVerbs.isSelected(), "emulated devices access memory as the CPU does");
    try (ForbiddenMemory from = new ForbiddenMemory(bytes);
        ForbiddenMemory to = new ForbiddenMemory(bytes);
        PairOfWires wires = pair("1")) {
      byte[] sent = new byte[(int) bytes];
      new Random(bytes).nextBytes(sent);
      from.segment().copyFrom(MemorySegment.ofArray(sent));
      // The device refuses the dma-buf, so the wire registers the address.
      List<Region> target = wires.expose(device(to, SOME_FILE), device(to, WireMemory.NO_DMA_BUF));
      Region source = wires.a.register(device(from, WireMemory.NO_DMA_BUF));
      from.forbid();
      to.forbid();
      Lane lane = wires.a.lane(1, 0);
      assertThat(lane.put(source, 0, target.get(0), 0, bytes, 0)).isEqualTo(1);
      wires.until(() -> wires.b.counters().get(0) == 1, "the put");
      to.allow();
      assertThat(to.segment().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(sent);
    }
  }

  @Test
  void unreachableMemoryIsRefusedOnBothSidesWithTheRemedy() throws Exception {
    WireMemory nowhere = WireMemory.device(4096, 4096, 3, SOME_FILE);
    try (ForbiddenMemory there = new ForbiddenMemory(4096);
        PairOfWires wires = pair("1")) {
      assertThatThrownBy(() -> wires.expose(device(there, WireMemory.NO_DMA_BUF), nowhere))
          .isInstanceOf(ExecutionException.class)
          .cause()
          .isInstanceOf(WireException.class)
          .hasMessageContaining("rank 1: ")
          .hasMessageContaining(ErrorCode.RDMA_DEVICE_MEMORY.id())
          .hasMessageContaining("memory of device 3 (")
          .hasMessageContaining("ibv_reg_dmabuf_mr")
          .hasMessageContaining("EOPNOTSUPP")
          .hasMessageContaining("ibv_reg_mr of 4096 bytes failed")
          .hasMessageContaining("nvidia-peermem");
    }
  }

  @Test
  void memoryOfADeviceIsRefusedByDefault() throws Exception {
    try (ForbiddenMemory memory = new ForbiddenMemory(64);
        PairOfWires wires = pair("0")) {
      WireMemory device = device(memory, WireMemory.NO_DMA_BUF);
      assertThat(wires.a.carriesDeviceMemory()).isFalse();
      assertThat(wires.a.exposes(device)).isFalse();
      assertThatThrownBy(() -> wires.a.register(device))
          .isInstanceOf(WireException.class)
          .hasMessageContaining("cannot read device memory");
    }
  }

  @Test
  void differentSettingsAreReportedWithRankAndVariable() {
    assertThatThrownBy(() -> new PairOfWires(1, 1, "1", "0", WireConfig.builder()))
        .cause()
        .isInstanceOf(WireException.class)
        .hasMessageStartingWith(ErrorCode.RDMA_SETTINGS_DIFFER.id())
        .hasMessageContaining("EP4J_IB_GPUDIRECT");
  }

  private static PairOfWires pair(String gpuDirect) throws Exception {
    return new PairOfWires(1, 1, gpuDirect, gpuDirect, WireConfig.builder());
  }

  private static WireMemory device(ForbiddenMemory memory, int dmaBuf) {
    return WireMemory.device(memory.segment().address(), memory.segment().byteSize(), 0, dmaBuf);
  }
}
