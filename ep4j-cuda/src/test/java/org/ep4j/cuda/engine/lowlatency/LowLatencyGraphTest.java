package org.ep4j.cuda.engine.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
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
import org.ep4j.cuda.engine.Batch;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A decode step, captured once, serves new rows and new routings; with and without hooks. */
class LowLatencyGraphTest {
  private static final int RANKS = 2;
  private static final int TOKENS = 24;
  private static final int REPLAYS = Integer.getInteger("ep4j.replays", 200);

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void replaysWithNewInputsMatchCalls(boolean hooked) {
    Gpu.require(1);
    ThreadRanks.run(RANKS, group -> replay(group, hooked));
  }

  private static void replay(Group group, boolean hooked) {
    int ordinal = group.rank() % CudaDevice.count();
    BufferConfig config = Batch.config().lowLatency(TOKENS).build();
    try (CudaDevice device = CudaDevice.open(ordinal);
        ExpertBuffer buffer = ExpertBuffer.open(group, config);
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      try (CudaStream stream = CudaStream.create(device)) {
        Step step = new Step(buffer, batch, new DeviceStream(stream.handle()), hooked);
        batch.fill(group.rank(), 0);
        // Twice without a graph, to allocate all memory.
        step.run();
        assertThat(bytes(stream, step.run())).hasSize(TOKENS * Batch.HIDDEN * 2);
        buffer.barrier();
        stream.beginCapture(CaptureMode.THREAD_LOCAL);
        Tensor out = step.run();
        try (CudaGraph graph = stream.endCapture();
            CudaGraphExec exec = graph.instantiate()) {
          for (int i = 1; i <= REPLAYS; i++) {
            if (i < 20 || i % 50 == 0) {
              batch.fill(group.rank(), i);
              buffer.barrier();
            }
            exec.launch(stream);
            byte[] replayed = bytes(stream, out);
            byte[] called = bytes(stream, step.run());
            assertThat(replayed).as("replay " + i + " of rank " + group.rank()).isEqualTo(called);
          }
        }
        buffer.barrier();
      }
    }
  }

  /** A dispatch and its combine. */
  private record Step(ExpertBuffer buffer, Batch batch, DeviceStream stream, boolean hooked) {
    Tensor run() {
      LowLatencyDispatch dispatch =
          buffer.lowLatencyDispatch(
              batch.x,
              batch.routing,
              LowLatencyDispatchOptions.builder()
                  .format(RowFormat.BF16)
                  .returnHook(hooked)
                  .execution(Execution.on(stream))
                  .build());
      if (hooked) {
        dispatch.hook().receive();
      }
      var combine =
          buffer.lowLatencyCombine(
              dispatch.x(),
              batch.routing,
              dispatch.handle(),
              LowLatencyCombineOptions.builder()
                  .returnHook(hooked)
                  .execution(Execution.on(stream))
                  .build());
      if (hooked) {
        combine.hook().receive();
      }
      return combine.x();
    }
  }

  private static byte[] bytes(CudaStream stream, Tensor out) {
    stream.synchronize();
    byte[] bytes = new byte[(int) out.byteSize()];
    out.copyTo(MemorySegment.ofArray(bytes));
    return bytes;
  }
}
