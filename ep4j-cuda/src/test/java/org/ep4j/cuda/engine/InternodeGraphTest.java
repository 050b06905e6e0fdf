package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A decode step between nodes, captured once, still works after a reset. */
class InternodeGraphTest {
  private static final int TOKENS = 24;
  private static final int REPLAYS = 8;

  @ParameterizedTest
  @MethodSource("org.ep4j.conformance.world.NodeWires#all")
  void graphsCapturedBeforeAResetMatchCalls(String wire) {
    Gpu.require(1);
    CyclicBarrier step = new CyclicBarrier(2);
    ThreadRanks.run(2, group -> run(group, wire, step));
  }

  private static void run(Group group, String wire, CyclicBarrier step) throws Exception {
    BufferConfig config =
        Batch.config()
            .lowLatency(TOKENS)
            .ranksPerNode(1)
            .wire(wire)
            .timeout(Duration.ofSeconds(2))
            .build();
    try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
        ExpertBuffer buffer = ExpertBuffer.open(group, config);
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      try (CudaStream stream = CudaStream.create(device)) {
        DeviceStream on = new DeviceStream(stream.handle());
        batch.fill(group.rank(), 0);
        // Twice without a graph, to allocate all memory.
        pair(buffer, batch, on);
        pair(buffer, batch, on);
        stream.synchronize();
        step.await(30, TimeUnit.SECONDS);
        stream.beginCapture(CaptureMode.THREAD_LOCAL);
        Tensor out = pair(buffer, batch, on);
        try (CudaGraph graph = stream.endCapture();
            CudaGraphExec exec = graph.instantiate()) {
          replays(buffer, batch, stream, exec, out);
          for (int reset = 0; reset < 2; reset++) {
            step.await(30, TimeUnit.SECONDS);
            if (group.rank() == reset) {
              assertThatThrownBy(
                      () -> buffer.lowLatencyDispatch(batch.x, batch.routing, bf16(null)))
                  .isInstanceOf(PeerTimeoutException.class);
            }
            step.await(30, TimeUnit.SECONDS);
            buffer.reset();
            replays(buffer, batch, stream, exec, out);
          }
        }
        step.await(30, TimeUnit.SECONDS);
      }
    }
  }

  private static void replays(
      ExpertBuffer buffer, Batch batch, CudaStream stream, CudaGraphExec exec, Tensor out) {
    for (int i = 1; i <= REPLAYS; i++) {
      batch.fill(buffer.rank(), i);
      exec.launch(stream);
      byte[] replayed = bytes(stream, out);
      Tensor called = pair(buffer, batch, new DeviceStream(stream.handle()));
      assertThat(replayed).as("replay %d", i).isEqualTo(bytes(stream, called));
    }
  }

  private static LowLatencyDispatchOptions bf16(@Nullable DeviceStream on) {
    LowLatencyDispatchOptions.Builder options =
        LowLatencyDispatchOptions.builder().format(RowFormat.BF16);
    return on == null ? options.build() : options.execution(Execution.on(on)).build();
  }

  private static Tensor pair(ExpertBuffer buffer, Batch batch, DeviceStream on) {
    LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(batch.x, batch.routing, bf16(on));
    return buffer
        .lowLatencyCombine(
            dispatch.x(),
            batch.routing,
            dispatch.handle(),
            LowLatencyCombineOptions.builder().execution(Execution.on(on)).build())
        .x();
  }

  private static byte[] bytes(CudaStream stream, Tensor out) {
    stream.synchronize();
    byte[] bytes = new byte[(int) out.byteSize()];
    out.copyTo(MemorySegment.ofArray(bytes));
    return bytes;
  }
}
