package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.Verdict;
import org.ep4j.observe.WorldObservation;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** A rank that comes late to every operation is named by what the kernels of all ranks count. */
@Timeout(120)
class ObservedWaitsTest {
  private static final int RANKS = 3;
  private static final int SLOW = 1;
  private static final int TOKENS = 24;
  private static final int PAIRS = 60;

  /** Much longer than an operation, and than the start of its kernel. */
  private static final long DELAY = Duration.ofMillis(2).toNanos();

  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  /** One operation of a pair. */
  private interface Pair {
    void run(ExpertBuffer buffer, Batch batch, Runnable before);
  }

  @ParameterizedTest
  @EnumSource(names = {"FLAT", "EXPERT_MAJOR"})
  void aSlowRankOfHighThroughputIsNamed(Layout layout) {
    requireSlowRankNamed(
        Batch.config(TOKENS).timeout(TIMEOUT).build(),
        (buffer, batch, before) -> {
          before.run();
          Dispatch dispatch =
              buffer.dispatch(layout, Tokens.of(batch.x), batch.routing, DispatchOptions.DEFAULT);
          try (DispatchHandle handle = dispatch.handle()) {
            before.run();
            Combine _ =
                buffer.combine(dispatch.combineInput(DType.BF16), handle, CombineOptions.DEFAULT);
          }
        });
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.conformance.world.NodeWires#orNone")
  void aSlowRankOfLowLatencyIsNamed(String wire) {
    BufferConfig.Builder config = Batch.config().lowLatency(TOKENS).timeout(TIMEOUT);
    if (!wire.equals("none")) {
      config.ranksPerNode(1).wire(wire);
    }
    requireSlowRankNamed(config.build(), ObservedWaitsTest::lowLatencyPair);
  }

  private static void lowLatencyPair(ExpertBuffer buffer, Batch batch, Runnable before) {
    before.run();
    LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(batch.x, batch.routing, BF16);
    before.run();
    buffer.lowLatencyCombine(
        dispatch.x(), batch.routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT);
  }

  private static void requireSlowRankNamed(BufferConfig config, Pair pair) {
    Gpu.require(1);
    List<WorldObservation> seen = ThreadRanks.call(RANKS, group -> observe(group, config, pair));
    WorldObservation world = seen.getFirst();
    Verdict verdict = world.verdict();
    assertThat(verdict.cause()).as(world.toString()).isEqualTo(Verdict.Cause.SLOW_RANK);
    assertThat(verdict.rank()).as(world.toString()).isEqualTo(SLOW);
    for (int r = 0; r < RANKS; r++) {
      assertThat(world.waitedNanos(r, SLOW)).isLessThanOrEqualTo(world.periodNanos());
    }
  }

  private static WorldObservation observe(Group group, BufferConfig config, Pair pair) {
    int rank = group.rank();
    try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
        ExpertBuffer buffer = ExpertBuffer.open(group, config);
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      batch.fill(rank, 1);
      for (int i = 0; i < PAIRS; i++) {
        pair.run(buffer, batch, rank == SLOW ? ObservedWaitsTest::sleep : () -> {});
      }
      buffer.barrier();
      RankObservation mine = buffer.observe();
      // The next operation would report the last window.
      assertThat(mine.windows()).hasSize(2 * PAIRS / ObservationLog.WINDOW - 1);
      WorldObservation seen = WorldObservation.gather(group, mine, TIMEOUT);
      group.barrier(TIMEOUT);
      return seen;
    }
  }

  private static void sleep() {
    long end = System.nanoTime() + DELAY;
    while (System.nanoTime() < end) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
  }

  @Test
  void replaysOfAGraphCount() {
    Gpu.require(1);
    ThreadRanks.run(2, ObservedWaitsTest::replay);
  }

  private static void replay(Group group) {
    int rank = group.rank();
    int replays = 3 * ObservationLog.WINDOW / 2;
    BufferConfig config = Batch.config().lowLatency(TOKENS).timeout(TIMEOUT).build();
    try (CudaDevice device = CudaDevice.open(rank % CudaDevice.count());
        ExpertBuffer buffer = ExpertBuffer.open(group, config);
        Batch batch = new Batch(device, TOKENS)) {
      device.makeCurrent();
      batch.fill(rank, 1);
      try (CudaStream stream = CudaStream.create(device)) {
        Execution onStream = Execution.on(new DeviceStream(stream.handle()));
        LowLatencyDispatchOptions dispatching =
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).execution(onStream).build();
        LowLatencyCombineOptions combining =
            LowLatencyCombineOptions.builder().execution(onStream).build();
        // Once without a graph, to allocate all memory.
        captured(buffer, batch, dispatching, combining);
        stream.synchronize();
        buffer.barrier();
        stream.beginCapture(CaptureMode.THREAD_LOCAL);
        captured(buffer, batch, dispatching, combining);
        try (CudaGraph graph = stream.endCapture();
            CudaGraphExec exec = graph.instantiate()) {
          for (int i = 0; i < replays; i++) {
            exec.launch(stream);
          }
          stream.synchronize();
        }
        assertThat(buffer.observe().windows()).hasSize(3);
        group.barrier(TIMEOUT);
      }
    }
  }

  private static void captured(
      ExpertBuffer buffer,
      Batch batch,
      LowLatencyDispatchOptions dispatching,
      LowLatencyCombineOptions combining) {
    LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(batch.x, batch.routing, dispatching);
    buffer.lowLatencyCombine(dispatch.x(), batch.routing, dispatch.handle(), combining);
  }
}
