package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.HIDDEN;
import static org.ep4j.engine.host.buffer.HighThroughputTest.routing;
import static org.ep4j.engine.host.buffer.HighThroughputTest.rows;

import java.util.Arrays;
import java.util.function.BiConsumer;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.DebugMode;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Buffers that are opened while {@link DebugMode} is on. */
class DebugModeBuffersTest {
  private static final int WIDE = 128;

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  /** A routing of no tokens. */
  private static final Routing NONE = Routing.of(new long[0], new float[0], 2);

  private String before = "";

  @BeforeEach
  void debug() {
    before = System.getProperty(DebugMode.PROPERTY, "");
    System.setProperty(DebugMode.PROPERTY, "true");
  }

  @AfterEach
  void asBefore() {
    System.setProperty(DebugMode.PROPERTY, before);
  }

  private static Tensor noRows(int hidden) {
    return Tensor.ofBf16(new short[0], 0, hidden);
  }

  private static void onBothRanks(BiConsumer<ExpertBuffer, Integer> body) {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig config = HighThroughputTest.config().build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.accept(buffer, group.rank());
            buffer.barrier();
          }
        });
  }

  private static void onBothRanksLowLatency(BiConsumer<ExpertBuffer, Integer> body) {
    BufferConfig config =
        BufferConfig.builder().engine("host").hidden(WIDE).topK(2).experts(4).lowLatency(4).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.accept(buffer, group.rank());
            buffer.barrier();
          }
        });
  }

  private static Tensor ones(int tokens, int hidden) {
    short[] values = new short[tokens * hidden];
    Arrays.fill(values, Tensors.bf16(1));
    return Tensor.ofBf16(values, tokens, hidden);
  }

  private static LowLatencyDispatch lowLatency(ExpertBuffer buffer, int rank) {
    Routing routing = routing(rank);
    return buffer.lowLatencyDispatch(ones(routing.tokens(), WIDE), routing, BF16);
  }

  private static void onlyNaN(Tensor tensor) {
    float[] values = tensor.toFloatArray();
    assertThat(values).isNotEmpty();
    for (float value : values) {
      assertThat(value).isNaN();
    }
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.errorCode()).isEqualTo(ErrorCode.ROWS_OF_OTHER_HANDLE);
              assertThat(e.argument()).isEqualTo("y");
            });
  }

  @Test
  void rowsOfOneHandleAreNotCombinedWithAnother() {
    onBothRanks(
        (buffer, rank) -> {
          DispatchHandle first = buffer.dispatch(rows(rank), routing(rank)).handle();
          FlatDispatch second = buffer.dispatch(rows(rank), routing(rank));
          refused(() -> buffer.combine(second.x(), first));
          CombineOptions async = CombineOptions.builder().execution(Execution.ASYNCHRONOUS).build();
          refused(() -> buffer.combine(second.x(), first, async).event().await());
          float[] own = buffer.combine(second.x(), second.handle()).x().toFloatArray();
          Tensor copy = Tensor.fromFloats(second.x().toFloatArray(), DType.BF16, 3, HIDDEN);
          assertThat(buffer.combine(copy, first).x().toFloatArray()).isEqualTo(own);
          FlatDispatch again = buffer.dispatch(Tokens.of(rows(rank)), first);
          assertThat(buffer.combine(again.x(), first).x().toFloatArray()).isEqualTo(own);
        });
  }

  @Test
  void resultsOfADispatchBecomeNaNAtTheNext() {
    onBothRanks(
        (buffer, rank) -> {
          FlatDispatch first = buffer.dispatch(rows(rank), routing(rank));
          Tensor x = first.x();
          Tensor weights = first.topkWeights();
          Tensor tokens = first.sourceTokens();
          assertThat(x.getFloat(0)).isEqualTo(1);
          buffer.dispatch(noRows(HIDDEN), NONE);
          onlyNaN(x);
          onlyNaN(weights);
          assertThat(tokens.toIntArray()).containsOnly(-1);
          assertThatThrownBy(first::x)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.RESULTS_OVERWRITTEN.id());
        });
  }

  @Test
  void resultsAreStillValidInputsOfTheNextDispatch() {
    onBothRanks(
        (buffer, rank) -> {
          FlatDispatch first = buffer.dispatch(rows(rank), routing(rank));
          Routing toRankZero = Routing.of(new long[] {0, -1, 0, -1, 0, -1}, new float[6], 2);
          FlatDispatch second = buffer.dispatch(first.x(), toRankZero);
          if (rank == 0) {
            assertThat(Tensors.heads(second.x())).containsExactly(1, 2, 11, 1, 3, 12);
          }
        });
  }

  @Test
  void sumsBecomeNaNAtTheNextCombine() {
    onBothRanks(
        (buffer, rank) -> {
          FlatDispatch first = buffer.dispatch(rows(rank), routing(rank));
          CombineOptions weights =
              CombineOptions.builder().topkWeights(first.topkWeights()).build();
          Combine combine = buffer.combine(first.x(), first.handle(), weights);
          Tensor sums = combine.x();
          Tensor weightSums = combine.topkWeights();
          assertThat(sums.getFloat(0)).isNotNaN();
          FlatDispatch second = buffer.dispatch(noRows(HIDDEN), NONE);
          buffer.combine(second.x(), second.handle());
          onlyNaN(sums);
          onlyNaN(weightSums);
        });
  }

  @Test
  void lowLatencyRowsOfOneHandleAreNotCombinedWithAnother() {
    onBothRanksLowLatency(
        (buffer, rank) -> {
          LowLatencyHandle first = lowLatency(buffer, rank).handle();
          LowLatencyDispatch second = lowLatency(buffer, rank);
          LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;
          refused(() -> buffer.lowLatencyCombine(second.x(), routing(rank), first, options));
          Tensor sums =
              buffer.lowLatencyCombine(second.x(), routing(rank), second.handle(), options).x();
          // Every row is 1: the sum of a token is the sum of its weights.
          assertThat(sums.getFloat(0)).isEqualTo(rank == 0 ? 0.75f : 7);
        });
  }

  @Test
  void lowLatencyResultsBecomeNaNWhenTheyAreOutdated() {
    onBothRanksLowLatency(
        (buffer, rank) -> {
          LowLatencyDispatch first = lowLatency(buffer, rank);
          LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;
          Tensor x = first.x();
          Tensor sums = buffer.lowLatencyCombine(x, routing(rank), first.handle(), options).x();
          assertThat(x.getFloat(0)).isEqualTo(1);
          for (int i = 0; i < 2; i++) {
            assertThat(sums.getFloat(0)).isNotNaN();
            assertThat(x.getFloat(0)).isEqualTo(1);
            LowLatencyDispatch next = buffer.lowLatencyDispatch(noRows(WIDE), NONE, BF16);
            buffer.lowLatencyCombine(next.x(), NONE, next.handle(), options);
          }
          assertThat(x.getFloat(0)).isNaN();
          onlyNaN(sums);
        });
  }
}
