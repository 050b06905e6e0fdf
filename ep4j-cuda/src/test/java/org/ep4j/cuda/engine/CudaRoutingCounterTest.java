package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Random;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.execution.DeviceStream;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class CudaRoutingCounterTest {
  private static final int[] NODES = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3};

  private final Random random = new Random(20261128);

  /** The tensors of a call on the host, and copies on the device. */
  private static final class Both implements AutoCloseable {
    private final Tensor ids;
    final RoutingCounts onHost;
    final RoutingCounts onDevice;
    private final ResourceStack owned = new ResourceStack();
    private final CudaDevice device;

    Both(CudaDevice device, Tensor ids, int experts) {
      this.device = device;
      this.ids = ids;
      long tokens = ids.size(0);
      Arena arena = Arena.ofAuto();
      onHost =
          new RoutingCounts(
              Tensor.allocate(arena, DType.INT32, NODES.length),
              Tensor.allocate(arena, DType.INT32, 4),
              Tensor.allocate(arena, DType.INT32, experts),
              Tensor.allocate(arena, DType.UINT8, tokens, NODES.length));
      onDevice =
          new RoutingCounts(
              copy(onHost.tokensPerRank()),
              copy(onHost.tokensPerNode()),
              copy(onHost.tokensPerExpert()),
              copy(onHost.tokenInRank()));
    }

    private Tensor copy(Tensor tensor) {
      DeviceMemory memory =
          owned.own(DeviceMemory.allocate(device, Math.max(1, tensor.byteSize())));
      if (tensor.byteSize() > 0) {
        MemorySegment poison = Arena.ofAuto().allocate(tensor.byteSize());
        poison.fill((byte) 0x5a);
        memory.copyFrom(0, poison);
      }
      return Tensor.ofDevice(memory.address(), device.ordinal(), tensor.dtype(), tensor.shape());
    }

    Routing idsOnDevice() {
      Tensor copied = copy(ids);
      copied.copyFrom(ids.segment());
      return Routing.of(copied);
    }

    void requireEqual() {
      equal(onDevice.tokensPerRank(), onHost.tokensPerRank());
      equal(onDevice.tokensPerNode(), onHost.tokensPerNode());
      equal(onDevice.tokensPerExpert(), onHost.tokensPerExpert());
      equal(onDevice.tokenInRank(), onHost.tokenInRank());
    }

    private static void equal(Tensor onDevice, Tensor onHost) {
      assertThat(onDevice.onHost(Arena.ofAuto()).segment().mismatch(onHost.segment()))
          .isEqualTo(-1);
    }

    @Override
    public void close() {
      owned.close();
    }
  }

  @Test
  void countsOfRandomRoutingsAreThoseOfTheHost() {
    Gpu.require(1);
    try (CudaDevice device = CudaDevice.open(0);
        CudaStream stream = CudaStream.create(device);
        RoutingCounter here = RoutingCounter.onHost(NODES);
        RoutingCounter there = RoutingCounter.onDevice(0, NODES)) {
      for (int repeat = 0; repeat < 20; repeat++) {
        int tokens = repeat == 0 ? 0 : 1 + random.nextInt(5000);
        int topK = 1 + random.nextInt(9);
        int experts = NODES.length * (1 + random.nextInt(26));
        long[] ids = random.longs((long) tokens * topK, -2, experts + 2L).toArray();
        try (Both both = new Both(device, Tensor.of(ids, tokens, topK), experts)) {
          Routing copied = both.idsOnDevice();
          here.count(Routing.of(both.ids), both.onHost);
          if (repeat % 2 == 0) {
            there.count(copied, both.onDevice);
          } else {
            there.count(copied, both.onDevice, new DeviceStream(stream.handle()));
            stream.synchronize();
          }
          both.requireEqual();
        }
      }
    }
  }
}
