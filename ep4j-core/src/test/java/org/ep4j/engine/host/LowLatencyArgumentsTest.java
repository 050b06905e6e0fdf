package org.ep4j.engine.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.LowLatencyCase.BF16;
import static org.ep4j.engine.host.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.LowLatencyCase.ZERO_COPY;
import static org.ep4j.engine.host.LowLatencyCase.config;
import static org.ep4j.engine.host.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.LowLatencyCase.expertRows;
import static org.ep4j.engine.host.LowLatencyCase.routing;
import static org.ep4j.engine.host.LowLatencyCase.rows;
import static org.ep4j.engine.host.Tensors.ints;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.DType;
import org.ep4j.ExpertBuffer;
import org.ep4j.InvalidArgumentException;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Routing;
import org.ep4j.ScaleKind;
import org.ep4j.Tensor;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.group.ThreadRanks.RankBody;
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
      String message) {
    assertThatThrownBy(() -> buffer.lowLatencyDispatch(x, routing, options))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessage(message);
  }

  private static void assertCombineRefused(
      ExpertBuffer buffer,
      Tensor y,
      Routing routing,
      LowLatencyHandle handle,
      LowLatencyCombineOptions options,
      String message) {
    assertThatThrownBy(() -> buffer.lowLatencyCombine(y, routing, handle, options))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessage(message);
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
          String wanted =
              "; it must be BF16[tokens, 128] (BufferConfig.hidden): low-latency dispatch takes"
                  + " BF16 rows and quantises them itself";
          assertDispatchRefused(
              buffer, bf16(1, 256), ids(0, 1), BF16, "x is BF16[1, 256]@heap" + wanted);
          Tensor floats = Tensor.of(new float[HIDDEN], 1, HIDDEN);
          assertDispatchRefused(buffer, floats, ids(0, 1), BF16, "x is FP32[1, 128]@heap" + wanted);
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
                "x is 4 tokens; it must be at most 3 (BufferConfig.lowLatencyMaxTokens): split the"
                    + " batch, or open the buffer with a larger lowLatencyMaxTokens"));
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
              "topkIdx is INT64[2, 2]@heap; it must be of 1 tokens like x: route every row of x,"
                  + " with -1 for rows that go nowhere");
          assertDispatchRefused(
              buffer,
              bf16(1, HIDDEN),
              Routing.of(new long[3], new float[3], 3),
              BF16,
              "topkIdx is INT64[1, 3]@heap; it must be [tokens, 1..2] (BufferConfig.topK): open the"
                  + " buffer with a larger topK");
        });
  }

  @Test
  void unknownAndRepeatedExpertsAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          Tensor x = bf16(2, HIDDEN);
          assertDispatchRefused(
              buffer,
              x,
              ids(0, 1, 2, 4),
              BF16,
              "topkIdx[1, 1] is 4; it must be -1..3 (BufferConfig.experts is 4): use -1 for no"
                  + " expert");
          assertDispatchRefused(
              buffer,
              x,
              ids(0, -2, 2, 3),
              BF16,
              "topkIdx[0, 1] is -2; it must be -1..3 (BufferConfig.experts is 4): use -1 for no"
                  + " expert");
          assertDispatchRefused(
              buffer,
              x,
              ids(0, 1, 3, 3),
              BF16,
              "topkIdx[1, 1] is 3; it must be different from the other choices of its token: choose"
                  + " each expert at most once, -1 for no expert");
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
                "hidden is 128; it must be a multiple of 512 for UE8M0 scales (four to a word): use"
                    + " FLOAT32_POW2, or pad hidden"));
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
              "cumulativeStats is INT32[4]@heap; it must be INT32[2]: pass a tensor of that shape");
          Tensor readOnly =
              Tensor.of(MemorySegment.ofArray(new long[2]).asReadOnly(), DType.INT64, 2);
          assertDispatchRefused(
              buffer,
              rows(rank),
              routing(rank),
              LowLatencyDispatchOptions.builder().waitStats(readOnly).build(),
              "waitStats is INT64[2]@heap (read-only); it must be writable: pass a writable"
                  + " segment");
        });
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
              "y is BF16[4, 6, 128]@heap; it must be BF16[2, 6, 128] (local experts, ranks *"
                  + " lowLatencyMaxTokens, hidden): pass the experts' rows where the dispatch put"
                  + " their inputs");
          try (Arena arena = Arena.ofConfined()) {
            Tensor elsewhere =
                Tensor.of(arena.allocate(2L * 2 * 6 * HIDDEN), DType.BF16, 2, 6, HIDDEN);
            assertCombineRefused(
                buffer,
                elsewhere,
                routing(rank),
                d.handle(),
                ZERO_COPY,
                "y is BF16[2, 6, 128]@host at another address; it must be"
                    + " lowLatencyCombineBuffer(handle) with zeroCopy: write the experts' rows"
                    + " there, or leave zeroCopy out");
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
          String[] messages = {
            "topkIdx[1, 1] is 2; it must be -1 as dispatched, or -1 to skip it: pass the routing of"
                + " the dispatch",
            "topkIdx[1, 1] is 3; it must be 2 as dispatched, or -1 to skip it: pass the routing of"
                + " the dispatch"
          };
          assertCombineRefused(buffer, y, ids(other[rank]), d.handle(), SUM, messages[rank]);
          int tokens = rank == 0 ? 3 : 2;
          assertCombineRefused(
              buffer,
              y,
              ids(0, 1),
              d.handle(),
              SUM,
              "topkIdx is INT64[1, 2]@heap; it must be ["
                  + tokens
                  + ", 2] as dispatched: pass the routing of the dispatch, with -1 for slots to be"
                  + " skipped");
          assertCombineRefused(
              buffer,
              y,
              Routing.of(routing(rank).topkIdx()),
              d.handle(),
              SUM,
              "topkWeights is absent; it must be FP32[tokens, topK]: combine weighs the experts'"
                  + " rows");
          assertCombineRefused(
              buffer,
              y,
              routing(rank),
              d.handle(),
              LowLatencyCombineOptions.builder().out(bf16(1, HIDDEN)).build(),
              "out is BF16[1, 128]@heap; it must be BF16["
                  + tokens
                  + ", 128]: pass a tensor of that shape");
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
                .hasMessageContaining("of a lowLatencyDispatch of this buffer");
          }
        });
  }

  @Test
  void bufferWithoutLowLatencySaysSo() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, config().lowLatencyMaxTokens(0).maxTokens(3).build())) {
            assertThatThrownBy(() -> dispatch(buffer))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("set BufferConfig.lowLatencyMaxTokens");
          }
        });
  }

  @Test
  void maskOfAnUnknownRankOrOfOneselfIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          assertThatThrownBy(() -> buffer.updateMask(2, true))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith("rank is 2; it must be a rank of 0..1 other than this one");
          assertThatThrownBy(() -> buffer.updateMask(rank, true))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageContaining("a rank always counts with itself");
        });
  }

  @Test
  void ranksThatCallDifferentThingsAreTold() {
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
        .hasMessageContaining("all ranks must call the same operations in the same order")
        .hasMessageContaining("dispatch of FP8 with FLOAT32 scales")
        .hasMessageContaining("dispatch of BF16");
  }
}
