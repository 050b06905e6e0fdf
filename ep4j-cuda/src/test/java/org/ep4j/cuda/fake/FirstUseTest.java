package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchHandle;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.ErrorCode;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Memory that operations allocate at their first use is missing: the error says on which rank, for
 * what, and what to lower, and the operation works when there is memory.
 */
@OnFakeDriver
class FirstUseTest {
  private static final int OUT_OF_MEMORY = 2;
  private static final BufferConfig CONFIG =
      Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS).build();

  @ParameterizedTest
  @ValueSource(strings = {"cuMemAlloc_v2", "cuMemHostAlloc"})
  void missingMemoryIsExplainedAndTheOperationCanBeRepeated(String allocation) {
    int count = count(allocation, FirstUseTest::use);
    for (int nth = 1; nth <= count; nth++) {
      fail(allocation, nth, count, FirstUseTest::use);
    }
  }

  /** A handle of a captured dispatch belongs to the graph, so the capture allocates others. */
  @ParameterizedTest
  @ValueSource(strings = {"cuMemAlloc_v2", "cuMemHostAlloc"})
  void missingMemoryDuringACaptureIsExplained(String allocation) {
    int count = count(allocation, FirstUseTest::capture);
    for (int nth = 1; nth <= count; nth++) {
      fail(allocation, nth, count, FirstUseTest::capture);
    }
  }

  private static int count(String allocation, OneRank.Body body) {
    int[] count = new int[1];
    OneRank.run(
        CONFIG,
        rank -> {
          FakeDriver.forgetCalls();
          body.run(rank);
          count[0] = FakeDriver.calls(allocation).size();
        });
    assertThat(count[0]).isPositive();
    return count[0];
  }

  private static void fail(String allocation, int nth, int count, OneRank.Body body) {
    OneRank.run(
        CONFIG,
        rank -> {
          FakeDriver.failCall(allocation, nth, OUT_OF_MEMORY);
          assertThatThrownBy(() -> body.run(rank))
              .as("%s %d of %d", allocation, nth, count)
              .hasMessageStartingWith(ErrorCode.GPU_OUT_OF_MEMORY.message("rank 0: "))
              .hasMessageContaining(allocation + " failed")
              .hasMessageMatching(".*[0-9]+ bytes of .*device 0 .* are wanted, .* are free: .*")
              .hasMessageContaining("maxTokens");
          body.run(rank);
        });
  }

  /** Operations that allocate: results of the buffer, and tensors of the host. */
  private static void use(OneRank rank) {
    rank.buffer.dispatchLayout(rank.batch.routing);
    try (Arena arena = Arena.ofConfined()) {
      Tensor x =
          Tensor.of(
              arena.allocate(rank.batch.x.byteSize(), 64),
              DType.BF16,
              OneRank.TOKENS,
              Batch.HIDDEN);
      rank.buffer.dispatch(
          Layout.EXPERT_MAJOR, Tokens.of(x), rank.batch.routing, rank.dispatching());
    }
    FlatDispatch received = (FlatDispatch) rank.dispatch(Layout.FLAT);
    try (DispatchHandle handle = received.handle()) {
      rank.buffer.combine(
          received.combineInput(DType.BF16),
          handle,
          CombineOptions.builder()
              .topkWeights(received.topkWeights())
              .execution(rank.onStream)
              .build());
    }
    for (int half = 0; half < 2; half++) {
      LowLatencyDispatch sent =
          rank.buffer.lowLatencyDispatch(
              rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
      rank.buffer.lowLatencyCombineBuffer(sent.handle());
      rank.buffer.lowLatencyCombine(
          sent.x(), rank.batch.routing, sent.handle(), rank.lowLatencyCombining());
    }
  }

  private static void capture(OneRank rank) {
    rank.stream.beginCapture();
    try {
      rank.dispatch(Layout.FLAT);
      rank.dispatch(Layout.EXPERT_MAJOR);
    } finally {
      try (CudaGraph graph = rank.stream.endCapture()) {
        assertThat(graph.nodes()).isNotNegative();
      }
    }
  }
}
