package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.BF16;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.ZERO_COPY;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.expertRows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.ThreadRanks.RankBody;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Arguments that low latency refuses before it sends anything, and the errors. */
class LowLatencyArgumentsTest {
  private static final LowLatencyCombineOptions SUM = LowLatencyCombineOptions.DEFAULT;

  /** Runs the body, then a whole dispatch and combine: a refused call leaves no trace. */
  private static void onBothRanks(LowLatencyCase.Body body) {
    LowLatencyCase.onBothRanks(
        (buffer, rank) -> {
          body.run(buffer, rank);
          LowLatencyDispatch d = dispatch(buffer);
          assertThat(ints(d.counts())).containsExactly(2, 2);
          buffer.lowLatencyCombine(expertRows(), routing(rank), d.handle(), SUM);
        });
  }

  private static void assertDispatchRefused(
      ExpertBuffer buffer,
      Tensor x,
      Routing routing,
      LowLatencyDispatchOptions options,
      ErrorCode code,
      String argument) {
    assertThatThrownBy(() -> buffer.lowLatencyDispatch(x, routing, options))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.message(argument + "; it must be "));
  }

  private static void assertCombineRefused(
      ExpertBuffer buffer,
      Tensor y,
      Routing routing,
      LowLatencyHandle handle,
      LowLatencyCombineOptions options,
      ErrorCode code,
      String argument) {
    assertThatThrownBy(() -> buffer.lowLatencyCombine(y, routing, handle, options))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.message(argument + "; it must be "));
  }

  private static Tensor bf16(int tokens, int hidden) {
    return Tensor.ofBf16(new short[tokens * hidden], tokens, hidden);
  }

  private static Routing ids(long... ids) {
    return Routing.of(ids, new float[ids.length], 2);
  }

  @Test
  void rowsOfAnotherShapeOrTypeAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          assertDispatchRefused(
              buffer,
              bf16(1, 256),
              ids(0, 1),
              BF16,
              ErrorCode.WRONG_TENSOR,
              "x = BF16[1, 256]@heap");
          assertDispatchRefused(
              buffer,
              bf16(1, 64),
              ids(0, 1),
              BF16,
              ErrorCode.ROWS_NOT_ALIGNED,
              "x = BF16[1, 64]@heap");
          Tensor floats = Tensor.of(new float[HIDDEN], 1, HIDDEN);
          assertDispatchRefused(
              buffer, floats, ids(0, 1), BF16, ErrorCode.WRONG_TENSOR, "x = FP32[1, 128]@heap");
        });
  }

  @Test
  void moreTokensThanTheMaximumAreRefused() {
    onBothRanks(
        (buffer, rank) ->
            assertDispatchRefused(
                buffer,
                bf16(4, HIDDEN),
                ids(0, 1, 0, 1, 0, 1, 0, 1),
                BF16,
                ErrorCode.TOO_MANY_TOKENS,
                "x = 4 tokens"));
  }

  @Test
  void routingOfOtherTokensOrMoreChoicesIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          assertDispatchRefused(
              buffer,
              bf16(1, HIDDEN),
              ids(0, 1, 2, 3),
              BF16,
              ErrorCode.TOKENS_DIFFER,
              "topkIdx = INT64[2, 2]@heap");
          assertDispatchRefused(
              buffer,
              bf16(1, HIDDEN),
              Routing.of(new long[3], new float[3], 3),
              BF16,
              ErrorCode.TOP_K_TOO_LARGE,
              "topkIdx = INT64[1, 3]@heap");
        });
  }

  @Test
  void unknownAndRepeatedExpertsAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          Tensor x = bf16(2, HIDDEN);
          assertDispatchRefused(
              buffer, x, ids(0, 1, 2, 4), BF16, ErrorCode.NO_SUCH_EXPERT, "topkIdx[1, 1] = 4");
          assertDispatchRefused(
              buffer, x, ids(0, -2, 2, 3), BF16, ErrorCode.NO_SUCH_EXPERT, "topkIdx[0, 1] = -2");
          assertDispatchRefused(
              buffer, x, ids(0, 1, 3, 3), BF16, ErrorCode.EXPERT_TWICE, "topkIdx[1, 1] = 3");
        });
  }

  @Test
  void packedExponentsNeedWholeWords() {
    LowLatencyDispatchOptions packed =
        LowLatencyDispatchOptions.builder().scaleKind(ScaleKind.UE8M0).build();
    onBothRanks(
        (buffer, rank) ->
            assertDispatchRefused(
                buffer,
                rows(rank),
                routing(rank),
                packed,
                ErrorCode.HIDDEN_NOT_IN_BLOCKS,
                "hidden = 128"));
  }

  @Test
  void statisticsOfAnotherShapeAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          assertDispatchRefused(
              buffer,
              rows(rank),
              routing(rank),
              LowLatencyDispatchOptions.builder().cumulativeStats(Tensor.of(new int[4], 4)).build(),
              ErrorCode.WRONG_TENSOR,
              "cumulativeStats = INT32[4]@heap");
          Tensor readOnly =
              Tensor.of(MemorySegment.ofArray(new long[2]).asReadOnly(), DType.INT64, 2);
          assertDispatchRefused(
              buffer,
              rows(rank),
              routing(rank),
              LowLatencyDispatchOptions.builder().waitStats(readOnly).build(),
              ErrorCode.TENSOR_READ_ONLY,
              "waitStats = INT64[2]@heap (read-only)");
        });
  }

  @Test
  void factorsThatAreNoPositiveNumberAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          for (float value : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
            assertDispatchRefused(
                buffer,
                bf16(1, HIDDEN),
                ids(0, 1),
                factor(Tensor.of(new float[] {value}, 1)),
                ErrorCode.GLOBAL_SCALE,
                "globalScale = " + value);
          }
          assertDispatchRefused(
              buffer,
              bf16(1, HIDDEN),
              ids(0, 1),
              factor(Tensor.of(new float[] {1, 1}, 2)),
              ErrorCode.WRONG_TENSOR,
              "globalScale = FP32[2]@heap");
        });
  }

  private static LowLatencyDispatchOptions factor(Tensor value) {
    return LowLatencyDispatchOptions.builder().globalScale(value).build();
  }

  @Test
  void expertRowsOfAnotherShapeAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          assertCombineRefused(
              buffer,
              Tensor.ofBf16(new short[4 * 6 * HIDDEN], 4, 6, HIDDEN),
              routing(rank),
              d.handle(),
              SUM,
              ErrorCode.WRONG_TENSOR,
              "y = BF16[4, 6, 128]@heap");
          try (Arena arena = Arena.ofConfined()) {
            Tensor elsewhere =
                Tensor.of(arena.allocate(2L * 2 * 6 * HIDDEN), DType.BF16, 2, 6, HIDDEN);
            assertCombineRefused(
                buffer,
                elsewhere,
                routing(rank),
                d.handle(),
                ZERO_COPY,
                ErrorCode.ZERO_COPY_MISMATCH,
                "y = BF16[2, 6, 128]@host at another address");
          }
        });
  }

  @Test
  void sumsInRowsOfExpertsAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          int tokens = (int) routing(rank).topkIdx().size(0);
          try (Arena arena = Arena.ofConfined()) {
            MemorySegment rows = arena.allocate(2L * 2 * 6 * HIDDEN);
            Tensor region = buffer.lowLatencyCombineBuffer(d.handle());
            MemorySegment last = rows.asSlice(rows.byteSize() - 2L * tokens * HIDDEN);
            for (MemorySegment sums : List.of(last, region.segment())) {
              assertCombineRefused(
                  buffer,
                  Tensor.of(rows, DType.BF16, 2, 6, HIDDEN),
                  routing(rank),
                  d.handle(),
                  LowLatencyCombineOptions.builder()
                      .out(Tensor.of(sums, DType.BF16, tokens, HIDDEN))
                      .build(),
                  ErrorCode.OUTPUT_OVERLAPS,
                  "out = BF16[" + tokens + ", 128]@host");
            }
          }
        });
  }

  @Test
  void combineRoutingMustBeThatOfTheDispatch() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = expertRows();
          long[][] other = {{3, 1, 0, 2, 2, 3}, {0, 1, -1, 3}};
          String[] entries = {"topkIdx[1, 1] = 2", "topkIdx[1, 1] = 3"};
          assertCombineRefused(
              buffer,
              y,
              ids(other[rank]),
              d.handle(),
              SUM,
              ErrorCode.ROUTING_CHANGED,
              entries[rank]);
          assertCombineRefused(
              buffer,
              y,
              ids(0, 1),
              d.handle(),
              SUM,
              ErrorCode.ROUTING_CHANGED,
              "topkIdx = INT64[1, 2]@heap");
          assertCombineRefused(
              buffer,
              y,
              Routing.of(routing(rank).topkIdx()),
              d.handle(),
              SUM,
              ErrorCode.WEIGHTS_MISSING,
              "topkWeights = null");
          assertCombineRefused(
              buffer,
              y,
              routing(rank),
              d.handle(),
              LowLatencyCombineOptions.builder().out(bf16(1, HIDDEN)).build(),
              ErrorCode.WRONG_TENSOR,
              "out = BF16[1, 128]@heap");
        });
  }

  @Test
  void handleOfAnotherBufferIsRefused() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer one = ExpertBuffer.open(group, config().build());
              ExpertBuffer two = ExpertBuffer.open(group, config().build())) {
            LowLatencyHandle handle = dispatch(one).handle();
            assertThatThrownBy(
                    () -> two.lowLatencyCombine(expertRows(), routing(group.rank()), handle, SUM))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.WRONG_HANDLE.id());
          }
        });
  }

  @Test
  void bufferWithoutLowLatencyRefusesIt() {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig config =
              BufferConfig.builder().hidden(HIDDEN).topK(2).experts(4).highThroughput(3).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            assertThatThrownBy(() -> dispatch(buffer))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.LOW_LATENCY_OFF.id());
          }
        });
  }

  @Test
  void maskOfAnUnknownRankOrOfOneselfIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          assertThatThrownBy(() -> buffer.updateMask(2, true))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(
                  ErrorCode.NO_SUCH_RANK.message("rank = 2; it must be a rank of 0..1"));
          assertThatThrownBy(() -> buffer.updateMask(rank, true))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(ErrorCode.NO_SUCH_RANK.message("rank = " + rank));
        });
  }

  @Test
  void ranksThatCallDifferentOperationsGetAnError() {
    RankBody body =
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            LowLatencyDispatchOptions options =
                group.rank() == 0 ? BF16 : LowLatencyDispatchOptions.DEFAULT;
            buffer.lowLatencyDispatch(rows(group.rank()), routing(group.rank()), options);
          }
        };
    assertThatThrownBy(() -> ThreadRanks.run(2, body))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.OPERATIONS_DIFFER.id())
        .hasMessageContaining("dispatch of FP8 with FLOAT32 scales, rows of 128")
        .hasMessageContaining("dispatch of BF16, rows of 128");
  }

  @Test
  void ranksWithRowsOfDifferentLengthsGetAnError() {
    RankBody body =
        group -> {
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, config().hidden(2 * HIDDEN).build())) {
            int hidden = (1 + group.rank()) * HIDDEN;
            buffer.lowLatencyDispatch(bf16(1, hidden), ids(0, 2), BF16);
          }
        };
    assertThatThrownBy(() -> ThreadRanks.run(2, body))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.OPERATIONS_DIFFER.id())
        .hasMessageContaining("dispatch of BF16, rows of 128")
        .hasMessageContaining("dispatch of BF16, rows of 256");
  }
}
