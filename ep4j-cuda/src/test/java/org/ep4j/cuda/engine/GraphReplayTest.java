package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DeviceStream;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Layout;
import org.ep4j.Sizing;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A STATIC dispatch and its combine, captured once, serve new rows and new routings. */
class GraphReplayTest {
  private static final int RANKS = 2;
  private static final int TOKENS = 96;
  private static final int REPLAYS = 50;

  @ParameterizedTest
  @EnumSource(Layout.class)
  void replaysWithNewInputsGiveWhatCallsGive(Layout layout) {
    Gpu.require(1);
    ThreadRanks.run(RANKS, group -> replay(group, layout));
  }

  private static void replay(Group group, Layout layout) {
    int ordinal = group.rank() % CudaDevice.count();
    try (CudaDevice device = CudaDevice.open(ordinal);
        ExpertBuffer buffer =
            ExpertBuffer.open(group, Batch.config(TOKENS).expertAlignment(8).build());
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      try (CudaStream stream = CudaStream.create(device)) {
        DispatchOptions dispatching =
            DispatchOptions.builder()
                .layout(layout)
                .sizing(Sizing.atMost(RANKS * TOKENS * Batch.TOP_K))
                .expertAlignment(8)
                .stream(new DeviceStream(stream.handle()))
                .build();
        CombineOptions combining =
            CombineOptions.builder().stream(new DeviceStream(stream.handle())).build();
        // Once without a graph, so that all memory is there.
        batch.fill(group.rank(), 0);
        byte[] warm = sums(stream, once(buffer, batch, dispatching, combining));
        assertThat(warm).hasSize(TOKENS * Batch.HIDDEN * 2);
        buffer.barrier();

        stream.beginCapture(CaptureMode.THREAD_LOCAL);
        Dispatch dispatch =
            buffer.dispatch(org.ep4j.Tokens.of(batch.x), batch.routing, dispatching);
        Tensor y = dispatch.x();
        DispatchHandle handle = dispatch.handle();
        Combine combine = buffer.combine(y, handle, combining);
        Tensor out = combine.x();
        try (CudaGraph graph = stream.endCapture();
            CudaGraphExec exec = graph.instantiate()) {
          for (int i = 1; i <= REPLAYS; i++) {
            batch.fill(group.rank(), i);
            buffer.barrier();
            exec.launch(stream);
            byte[] replayed = sums(stream, out);
            byte[] called = sums(stream, once(buffer, batch, dispatching, combining));
            assertThat(replayed).as("replay " + i + " of rank " + group.rank()).isEqualTo(called);
          }
        }
        handle.close();
        buffer.barrier();
      }
    }
  }

  private static Tensor once(
      ExpertBuffer buffer, Batch batch, DispatchOptions dispatching, CombineOptions combining) {
    Dispatch dispatch = buffer.dispatch(org.ep4j.Tokens.of(batch.x), batch.routing, dispatching);
    try (DispatchHandle handle = dispatch.handle()) {
      return buffer.combine(dispatch.x(), handle, combining).x();
    }
  }

  private static byte[] sums(CudaStream stream, Tensor out) {
    stream.synchronize();
    byte[] bytes = new byte[(int) out.byteSize()];
    out.copyTo(MemorySegment.ofArray(bytes));
    return bytes;
  }
}
