package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Counts of routings without a buffer: launches, refusals, and what a failed opening leaves. */
@OnFakeDriver
class RoutingCounterTest {
  private static final int OUT_OF_MEMORY = 2;
  private static final int EXPERTS = 20;
  private static final int TOKENS = 3;

  private static RoutingCounts counts(DeviceMemory memory) {
    long at = memory.address();
    return new RoutingCounts(
        Tensor.ofDevice(at, 0, DType.INT32, 10),
        Tensor.ofDevice(at + 64, 0, DType.INT32, 1),
        Tensor.ofDevice(at + 128, 0, DType.INT32, EXPERTS),
        Tensor.ofDevice(at + 256, 0, DType.UINT8, TOKENS, 10));
  }

  @Test
  void oneLaunchHasABlockForEightExpertsRanksOrNodes() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 4096);
        RoutingCounter counter = RoutingCounter.onDevice(0, new int[10])) {
      int before = FakeKernels.launches().size();
      Tensor ids = Tensor.ofDevice(memory.address() + 1024, 0, DType.INT32, TOKENS, 2);
      counter.count(Routing.of(ids), counts(memory), new DeviceStream(0));
      var launches = FakeKernels.launches();
      assertThat(launches).hasSize(before + 1);
      FakeKernels.Launch launch = launches.getLast();
      assertThat(launch.blocks()).isEqualTo(3 + 2 + 1);
      assertThat(launch.stream()).isZero();
      assertThat(launch.get("tokens")).isEqualTo(TOKENS);
      assertThat(launch.get("top_k")).isEqualTo(2);
      assertThat(launch.get("wide_ids")).isZero();
      assertThat(launch.get("experts")).isEqualTo(EXPERTS);
      assertThat(launch.get("each")).isEqualTo(2);
      assertThat(launch.get("in_rank")).isEqualTo(memory.address() + 256);
    }
  }

  @Test
  void tensorsElsewhereAreRefused() {
    try (CudaDevice device = CudaDevice.open(0);
        DeviceMemory memory = DeviceMemory.allocate(device, 4096);
        Arena arena = Arena.ofConfined();
        RoutingCounter counter = RoutingCounter.onDevice(0, new int[10])) {
      Routing onHost = Routing.of(Tensor.allocate(arena, DType.INT64, TOKENS, 2));
      assertThatThrownBy(() -> counter.count(onHost, counts(memory)))
          .isInstanceOfSatisfying(
              InvalidArgumentException.class,
              e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.CUDA_TENSOR_MEMORY));
    }
  }

  /** The extension looks for what is not released. */
  @Test
  void anOpeningThatFailsLeavesNothing() {
    for (String function : new String[] {"cuStreamCreateWithPriority", "cuMemAlloc_v2"}) {
      FakeDriver.failCall(function, 1, OUT_OF_MEMORY);
      assertThatThrownBy(() -> RoutingCounter.onDevice(0, 0))
          .hasMessageContaining(function + " failed");
    }
  }
}
