package org.ep4j.cuda.engine;

import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** An at-most dispatch and its combine, captured once, serve new rows and new routings. */
class GraphReplayTest {
  private static final int RANKS = 2;
  private static final int TOKENS = 96;
  private static final int REPLAYS = 50;

  @ParameterizedTest
  @CsvSource({"FLAT, RANK", "EXPERT_MAJOR, RANK", "EXPERT_MAJOR, EXPERT"})
  void replaysWithNewInputsReturnTheRightBytes(Layout layout, CombineOrder order) {
    Gpu.require(1);
    ThreadRanks.run(RANKS, group -> replay(group, layout, order));
  }

  private static void replay(Group group, Layout layout, CombineOrder order) {
    int rank = group.rank();
    try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
        ExpertBuffer buffer =
            ExpertBuffer.open(
                group,
                Batch.config()
                    .highThroughput(
                        HighThroughputConfig.builder()
                            .maxTokens(TOKENS)
                            .expertAlignment(8)
                            .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                            .combineInPlace(order == CombineOrder.EXPERT)
                            .build())
                    .build());
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      try (CudaStream stream = CudaStream.create(device)) {
        DispatchOptions dispatching =
            DispatchOptions.builder()
                .sizing(Sizing.atMost(RANKS * TOKENS * Batch.TOP_K))
                .expertAlignment(8)
                .execution(Execution.on(new DeviceStream(stream.handle())))
                .build();
        CombineOptions combining =
            CombineOptions.builder()
                .order(order)
                .execution(Execution.on(new DeviceStream(stream.handle())))
                .build();
        // Once without a graph, to allocate all memory.
        batch.fill(rank, 0);
        Dispatch called = buffer.dispatch(layout, Tokens.of(batch.x), batch.routing, dispatching);
        Expected first = new Expected(RANKS, TOKENS, 0, layout, 8);
        stream.synchronize();
        first.checkDispatch(rank, called);
        Tensor y = called.combineInput(DType.BF16);
        DeviceMemory prepared = DeviceMemory.allocate(device, y.byteSize());
        Tensor answers =
            Tensor.ofDevice(prepared.address(), device.ordinal(), DType.BF16, y.size(0), y.size(1));
        first.fillAnswers(answers, rank);
        answer(y, answers, stream);
        // Allocations may wait for the device: no other rank waits on the device for this rank.
        buffer.barrier();
        try (DispatchHandle handle = called.handle()) {
          Combine combine = buffer.combine(y, handle, combining);
          stream.synchronize();
          first.checkCombine(rank, combine, order);
        }
        buffer.barrier();

        stream.beginCapture(CaptureMode.THREAD_LOCAL);
        Dispatch dispatch = buffer.dispatch(layout, Tokens.of(batch.x), batch.routing, dispatching);
        DispatchHandle handle = dispatch.handle();
        answer(y, answers, stream);
        Combine combine = buffer.combine(y, handle, combining);
        try (CudaGraph graph = stream.endCapture();
            CudaGraphExec exec = graph.instantiate()) {
          for (int i = 1; i <= REPLAYS; i++) {
            Expected expected = new Expected(RANKS, TOKENS, i, layout, 8);
            batch.fill(rank, i);
            expected.fillAnswers(answers, rank);
            buffer.barrier();
            exec.launch(stream);
            stream.synchronize();
            if (order == CombineOrder.RANK) {
              expected.checkDispatch(rank, dispatch);
            }
            expected.checkCombine(rank, combine, order);
          }
        }
        handle.close();
        buffer.barrier();
        prepared.close();
      }
    }
  }

  /** The experts: in the order of experts, over the rows that they have received. */
  private static void answer(Tensor y, Tensor answers, CudaStream stream) {
    DeviceCopies.copy(y.address(), answers.address(), y.byteSize(), stream);
  }
}
