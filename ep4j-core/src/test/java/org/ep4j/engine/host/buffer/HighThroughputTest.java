package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.floats;
import static org.ep4j.engine.host.buffer.Tensors.heads;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.buffer.Tensors.longs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * High throughput on a case small enough to compute by hand: two ranks, four experts (0 and 1 on
 * rank 0, 2 and 3 on rank 1), two choices, rows of 16 BF16 values that all equal 10 * rank + token
 * + 1.
 *
 * <pre>
 * rank 0: token 0 -> experts 3, 1    token 1 -> 0, none    token 2 -> 2, 3
 * rank 1: token 0 -> experts 0, 1    token 1 -> none, 2
 * </pre>
 */
class HighThroughputTest {
  static final int HIDDEN = 16;

  static final HighThroughputConfig LIMITS =
      HighThroughputConfig.builder()
          .maxTokens(8)
          .expertAlignment(4)
          .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
          .build();

  private static final long[][] IDS = {{3, 1, 0, -1, 2, 3}, {0, 1, -1, 2}};
  private static final float[][] WEIGHTS = {{0.5f, 0.25f, 1f, 9f, 0.75f, 2f}, {3f, 4f, 9f, 5f}};

  static BufferConfig.Builder config() {
    return BufferConfig.builder().hidden(HIDDEN).topK(2).experts(4).highThroughput(LIMITS);
  }

  static Routing routing(int rank) {
    return Routing.of(IDS[rank], WEIGHTS[rank], 2);
  }

  static Tensor rows(int rank) {
    int tokens = IDS[rank].length / 2;
    short[] values = new short[tokens * HIDDEN];
    for (int t = 0; t < tokens; t++) {
      Arrays.fill(values, t * HIDDEN, (t + 1) * HIDDEN, bf16(10 * rank + t + 1));
    }
    return Tensor.ofBf16(values, tokens, HIDDEN);
  }

  private static void assertMissing(ThrowingCallable accessor) {
    assertThatThrownBy(accessor)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.RESULT_MISSING.id());
  }

  @Test
  void flatRowsArriveOncePerRankOrderedBySourceAndToken() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            if (group.rank() == 0) {
              assertThat(d.rows()).isEqualTo(3);
              assertThat(heads(d.x())).containsExactly(1, 2, 11);
              assertThat(longs(d.topkIdx())).containsExactly(-1, 1, 0, -1, 0, 1);
              assertThat(floats(d.topkWeights())).containsExactly(0, 0.25f, 1, 0, 3, 4);
              assertThat(ints(d.alignedCounts())).containsExactly(2, 2);
              assertThat(longs(d.rankOffsets())).containsExactly(0, 2, 3);
              assertThat(ints(d.sourceTokens())).containsExactly(0, 1, 0);
              assertThat(ints(d.sourceRanks())).containsExactly(0, 0, 1);
            } else {
              assertThat(d.rows()).isEqualTo(3);
              assertThat(heads(d.x())).containsExactly(1, 3, 12);
              assertThat(longs(d.topkIdx())).containsExactly(1, -1, 0, 1, -1, 0);
              assertThat(floats(d.topkWeights())).containsExactly(0.5f, 0, 0.75f, 2, 0, 5);
              assertThat(ints(d.alignedCounts())).containsExactly(2, 2);
            }
            assertThat(d.hasScales()).isFalse();
            assertMissing(d::scales);
            assertThat(d.hasGlobalScales()).isFalse();
            assertMissing(d::globalScales);
            assertThat(d.overflow()).isEmpty();
          }
        });
  }

  @Test
  void combineSumsOverTheRanksThatHeldAToken() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            CombineOptions weights = CombineOptions.builder().topkWeights(d.topkWeights()).build();
            Combine c = buffer.combine(d.x(), d.handle(), weights);
            float[] sums = heads(c.x());
            if (group.rank() == 0) {
              assertThat(sums).containsExactly(2, 2, 3);
              assertThat(floats(c.topkWeights())).containsExactly(0.5f, 0.25f, 1, 0, 0.75f, 2);
            } else {
              assertThat(sums).containsExactly(11, 12);
              assertThat(floats(c.topkWeights())).containsExactly(3, 4, 0, 5);
            }
          }
        });
  }

  @Test
  void expertMajorRowsAreGroupedAlignedAndPadded() {
    DispatchOptions options =
        DispatchOptions.builder().expertAlignment(4).zeroPadding(true).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            GroupedDispatch d =
                buffer.dispatchGrouped(
                    Tokens.of(rows(group.rank())), routing(group.rank()), options);
            assertThat(d.rows()).isEqualTo(8);
            assertThat(d.receivedRows()).isEqualTo(4);
            assertThat(longs(d.expertOffsets())).containsExactly(0, 4, 8);
            assertThat(ints(d.alignedCounts())).containsExactly(4, 4);
            assertThat(ints(d.counts())).containsExactly(2, 2);
            if (group.rank() == 0) {
              assertThat(heads(d.x())).containsExactly(2, 11, 0, 0, 1, 11, 0, 0);
              assertThat(floats(d.rowWeights())).containsExactly(1, 3, 0, 0, 0.25f, 4, 0, 0);
              assertThat(ints(d.sourceTokens())).containsExactly(1, 0, -1, -1, 0, 0, -1, -1);
              assertThat(ints(d.sourceRanks())).containsExactly(0, 1, -1, -1, 0, 1, -1, -1);
            } else {
              assertThat(heads(d.x())).containsExactly(3, 12, 0, 0, 1, 3, 0, 0);
              assertThat(floats(d.rowWeights())).containsExactly(0.75f, 5, 0, 0, 0.5f, 2, 0, 0);
            }
            CombineOptions weights = CombineOptions.builder().topkWeights(d.rowWeights()).build();
            Combine c = buffer.combine(d.x(), d.handle(), weights);
            if (group.rank() == 0) {
              assertThat(heads(c.x())).containsExactly(2, 2, 6);
              assertThat(floats(c.topkWeights())).containsExactly(0.5f, 0.25f, 1, 0, 0.75f, 2);
            } else {
              assertThat(heads(c.x())).containsExactly(22, 12);
              assertThat(floats(c.topkWeights())).containsExactly(3, 4, 0, 5);
            }
          }
        });
  }

  @Test
  void biasesAreAddedFirstAndTheSumIsRoundedOnce() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            int tokens = d.handle().tokens();
            // 256 + 1 is halfway between two BF16 values: only a sum in float32 keeps the last 1.
            Tensor big = constant(256, tokens);
            Tensor one = constant(1, tokens);
            Tensor y = constant(1, (int) d.rows());
            CombineOptions options = CombineOptions.builder().bias(big, one).build();
            float[] sums = heads(buffer.combine(y, d.handle(), options).x());
            // Tokens of rank 0 went to 2, 1, 1 ranks, those of rank 1 to 1, 1: 259 rounds to 260.
            if (group.rank() == 0) {
              assertThat(sums).containsExactly(260, 258, 258);
            } else {
              assertThat(sums).containsExactly(258, 258);
            }
          }
        });
  }

  @Test
  void partialRoundingDecidesHowOftenExpertMajorSumsAreRounded() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Routing routing = Routing.of(Tensor.of(new long[] {2, 0}, 1, 2));
            Dispatch d = buffer.dispatchGrouped(constant(1, 1), routing);
            short[] y = new short[2 * HIDDEN];
            Arrays.fill(y, 0, HIDDEN, bf16(256));
            Arrays.fill(y, HIDDEN, 2 * HIDDEN, bf16(1.25f));
            Tensor rows = Tensor.ofBf16(y, 2, HIDDEN);
            // BF16 steps are 2 at this magnitude. 256 + 1.25 = 257.25, with the bias 258.75,
            // rounded: 258. Rounded before the bias: 258, with the bias 259.5, rounded: 260.
            CombineOptions.Builder bias = CombineOptions.builder().bias(constant(1.5f, 1));
            Combine twice = buffer.combine(rows, d.handle(), bias.partialRounding(true).build());
            assertThat(heads(twice.x())).containsExactly(260);
            Combine once = buffer.combine(rows, d.handle(), bias.partialRounding(false).build());
            assertThat(heads(once.x())).containsExactly(258);
          }
        });
  }

  @Test
  void appliedWeightsAreThoseOfTheDispatchWhateverHappensToReceivedOnes() {
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            GroupedDispatch d = buffer.dispatchGrouped(rows(rank), routing(rank));
            DispatchHandle handle = d.handle();
            d.rowWeights().segment().fill((byte) 0);
            // Another dispatch reuses the memory of the rows and their weights.
            buffer.dispatchGrouped(rows(rank), Routing.of(IDS[rank], new float[6 - 2 * rank], 2));
            Tensor y = constant(2, (int) handle.rows());
            CombineOptions applied =
                CombineOptions.builder()
                    .applyWeights(true)
                    .bias(constant(1, handle.tokens()))
                    .build();
            assertWeighted(rank, buffer.combine(y, handle, applied));
            // A cached dispatch has no weights.
            buffer.dispatchGrouped(Tokens.of(rows(rank)), handle);
            assertWeighted(rank, buffer.combine(y, handle, applied));
            float[] unweighted = rank == 0 ? new float[] {4, 2, 4} : new float[] {4, 2};
            assertThat(heads(buffer.combine(y, handle).x())).containsExactly(unweighted);
            handle.close();
          }
        });
  }

  /** Rows of 2 times the weights of {@link #WEIGHTS} that have an expert, and a bias of 1. */
  private static void assertWeighted(int rank, Combine combine) {
    float[] expected = rank == 0 ? new float[] {2.5f, 3, 6.5f} : new float[] {15, 11};
    assertThat(heads(combine.x())).containsExactly(expected);
  }

  @Test
  void productsWithWeightsAreRoundedBeforeTheyAreAdded() {
    ThreadRanks.run(
        1,
        group -> {
          HighThroughputConfig wide = LIMITS.toBuilder().rowDType(DType.FP32).build();
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, config().highThroughput(wide).build())) {
            float third = 1 / 3f;
            Routing routing = Routing.of(new long[] {0, 1}, new float[] {1, third}, 2);
            GroupedDispatch d = buffer.dispatchGrouped(constant(1, 1), routing);
            // The rounded product of 3 and 1/3 is 1. A fused multiply-add would keep that 3 times
            // the
            // float 1/3 is 1 + 2^-25, and the sum with -1 would be 2^-25 instead of 0.
            float[] y = new float[2 * HIDDEN];
            Arrays.fill(y, 0, HIDDEN, -1);
            Arrays.fill(y, HIDDEN, 2 * HIDDEN, 3);
            CombineOptions applied =
                CombineOptions.builder().applyWeights(true).partialRounding(false).build();
            Tensor sums = buffer.combine(Tensor.of(y, 2, HIDDEN), d.handle(), applied).x();
            assertThat(heads(sums)).containsExactly(0);
          }
        });
  }

  @Test
  void resultsOfAnEarlierOperationAreRefused() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Routing routing = Routing.of(Tensor.of(new long[] {0, 1}, 1, 2));
            FlatDispatch before = buffer.dispatch(constant(1, 1), routing);
            DispatchHandle handle = before.handle();
            Combine sums = buffer.combine(before.x(), handle);
            assertThat(heads(sums.x())).containsExactly(1);
            GroupedDispatch grouped = buffer.dispatchGrouped(constant(2, 1), routing);
            assertOverwritten(before::x);
            assertOverwritten(before::rows);
            assertOverwritten(before::handle);
            assertThat(before.event().isDone()).isTrue();
            buffer.combine(constant(3, 1), handle);
            assertOverwritten(sums::x);
            assertThat(grouped.rows()).isEqualTo(2);
            buffer.dispatch(Tokens.of(constant(4, 1)), handle);
            assertOverwritten(grouped::expertOffsets);
          }
        });
  }

  private static void assertOverwritten(ThrowingCallable accessor) {
    assertThatThrownBy(accessor)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.RESULTS_OVERWRITTEN.id());
  }

  @Test
  void handleOfAnotherLayoutIsRefused() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Routing routing = Routing.of(Tensor.of(new long[] {0, 1}, 1, 2));
            DispatchHandle flat = buffer.dispatch(constant(1, 1), routing).handle();
            assertThatThrownBy(() -> buffer.dispatchGrouped(Tokens.of(constant(1, 1)), flat))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.HANDLE_OF_OTHER_LAYOUT.id())
                .hasMessageContaining("call dispatch");
            DispatchHandle grouped = buffer.dispatchGrouped(constant(1, 1), routing).handle();
            assertThatThrownBy(() -> buffer.dispatch(Tokens.of(constant(1, 1)), grouped))
                .hasMessageStartingWith(ErrorCode.HANDLE_OF_OTHER_LAYOUT.id())
                .hasMessageContaining("call dispatchGrouped");
          }
        });
  }

  @Test
  void staticSizingDeliversTheFixedNumberOfRows() {
    DispatchOptions options = DispatchOptions.builder().sizing(Sizing.atMost(5)).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d =
                buffer.dispatch(Tokens.of(rows(group.rank())), routing(group.rank()), options);
            assertThat(d.rows()).isEqualTo(5);
            assertThat(d.receivedRows()).isEqualTo(3);
            assertThat(d.handle().rows()).isEqualTo(3);
            assertThat(d.overflow()).isEmpty();
            assertThat(Arrays.copyOfRange(longs(d.topkIdx()), 6, 10)).containsOnly(-1);
            assertThat(Arrays.copyOfRange(floats(d.topkWeights()), 6, 10)).containsOnly(0);
            assertThat(Arrays.copyOfRange(ints(d.sourceTokens()), 3, 5)).containsOnly(-1);
            assertThat(Arrays.copyOfRange(ints(d.sourceRanks()), 3, 5)).containsOnly(-1);
          }
        });
  }

  @Test
  void overflowOfALimitIsReportedAndRowsWithoutSlotAreSkipped() {
    ThreadRanks.run(
        2,
        group -> {
          // Rank 0 takes two rows of three, rank 1 takes all.
          Sizing sizing = Sizing.atMost(group.rank() == 0 ? 2 : 4);
          DispatchOptions options = DispatchOptions.builder().sizing(sizing).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d =
                buffer.dispatch(Tokens.of(rows(group.rank())), routing(group.rank()), options);
            if (group.rank() == 0) {
              ReceiveOverflowException overflow = d.overflow().orElseThrow();
              assertThat(overflow.rank()).isZero();
              assertThat(overflow.needed()).isEqualTo(3);
              assertThat(overflow.available()).isEqualTo(2);
              assertThat(overflow)
                  .hasMessageStartingWith(
                      ErrorCode.RECEIVE_OVERFLOW.message("the receive region of rank 0 "));
              assertThat(heads(d.x())).containsExactly(1, 2);
            } else {
              assertThat(d.overflow()).isEmpty();
            }
            Combine c = buffer.combine(d.x(), d.handle());
            // Token 0 of rank 1 had no slot on rank 0, its only rank.
            assertThat(heads(c.x()))
                .containsExactly(group.rank() == 0 ? new float[] {2, 2, 3} : new float[] {0, 12});
          }
        });
  }

  @Test
  void exactDispatchThatDoesNotFitIsRefusedOnAllRanksWithNothingSent() {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig small =
              config().highThroughput(LIMITS.toBuilder().maxReceiveRows(2).build()).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, small)) {
            assertThatThrownBy(() -> buffer.dispatch(rows(group.rank()), routing(group.rank())))
                .isInstanceOf(ReceiveOverflowException.class)
                .hasMessageStartingWith(
                    ErrorCode.RECEIVE_OVERFLOW.message("the receive region of rank 0 "))
                .hasMessageContaining("raise HighThroughputConfig.maxReceiveRows");
            // The buffer remains usable: one token per rank fits.
            Routing one = Routing.of(Tensor.of(new long[] {group.rank(), -1}, 1, 2));
            Dispatch d = buffer.dispatch(constant(7, 1), one);
            assertThat(d.receivedRows()).isEqualTo(group.rank() == 0 ? 2 : 0);
          }
        });
  }

  /** The bound that an error names suffices: no second attempt meets a rank that needs more. */
  @Test
  void exactDispatchThatDoesNotFitNamesANumberThatSufficesForAllRanks() {
    BufferConfig small =
        config().highThroughput(LIMITS.toBuilder().maxReceiveRows(2).build()).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, small)) {
            // Three rows go to rank 0, which owns experts 0 and 1, and four to rank 1.
            long[] ids = group.rank() == 0 ? new long[] {0, 2, 1, 2, 3, -1} : new long[] {0, 3};
            Routing routing = Routing.of(Tensor.of(ids, ids.length / 2, 2));
            assertThatThrownBy(() -> buffer.dispatch(constant(1, ids.length / 2), routing))
                .isInstanceOfSatisfying(
                    ReceiveOverflowException.class,
                    e -> {
                      assertThat(e.rank()).isEqualTo(1);
                      assertThat(e.needed()).isEqualTo(4);
                      assertThat(e.available()).isEqualTo(2);
                    });
          }
        });
  }

  @Test
  void cachedDispatchSendsNewRowsAlongKnownRoutes() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            DispatchHandle handle =
                buffer.dispatch(rows(group.rank()), routing(group.rank())).handle();
            // Another dispatch in between: a handle outlives its rows.
            Routing all = Routing.of(Tensor.of(new long[] {0, 1, 2, 3}, 2, 2));
            buffer.dispatch(constant(5, 2), all).handle().close();
            Tensor x = constant(40 + group.rank(), handle.tokens());
            FlatDispatch d = buffer.dispatch(Tokens.of(x), handle);
            assertThat(heads(d.x())).containsExactly(40, 40, 41);
            assertThat(ints(d.sourceTokens()))
                .containsExactly(group.rank() == 0 ? new int[] {0, 1, 0} : new int[] {0, 2, 1});
            assertThat(d.hasChoices()).isFalse();
            assertMissing(d::topkIdx);
            assertThat(d.hasWeights()).isFalse();
            assertMissing(d::topkWeights);
            assertThat(ints(d.alignedCounts())).containsExactly(2, 2);
            assertThat(heads(buffer.combine(d.x(), handle).x()))
                .containsExactly(
                    group.rank() == 0 ? new float[] {80, 40, 40} : new float[] {41, 41});
          }
        });
  }

  @Test
  void rowsToCombineMayLieAnywhere() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build());
              Arena arena = Arena.ofConfined()) {
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            float[] sums = heads(buffer.combine(d.x(), d.handle()).x());
            long bytes = d.x().byteSize();
            Tensor own = d.combineInput(DType.BF16).rows(0, d.rows());
            d.x().copyTo(own.segment());
            MemorySegment odd = arena.allocate(bytes + 2, 64).asSlice(2);
            d.x().copyTo(odd);
            short[] heap = d.x().segment().toArray(ValueLayout.JAVA_SHORT);
            for (Tensor y :
                List.of(
                    own,
                    Tensor.of(odd, DType.BF16, d.rows(), HIDDEN),
                    Tensor.ofBf16(heap, d.rows(), HIDDEN))) {
              assertThat(heads(buffer.combine(y, d.handle()).x())).as("%s", y).isEqualTo(sums);
            }
            assertThat(buffer.statistics().combines()).isEqualTo(4);
            assertThat(buffer.statistics().combinesInPlace()).as("all but the heap's").isEqualTo(3);
            Tensor heapOut = Tensor.ofBf16(new short[sums.length * HIDDEN], sums.length, HIDDEN);
            Tensor nativeOut =
                Tensor.of(
                    arena.allocate(sums.length * 2L * HIDDEN), DType.BF16, sums.length, HIDDEN);
            for (Tensor out : List.of(heapOut, nativeOut)) {
              CombineOptions into = CombineOptions.builder().out(out).build();
              assertThat(buffer.combine(own, d.handle(), into).x()).isSameAs(out);
              assertThat(heads(out)).as("%s", out).isEqualTo(sums);
            }
          }
        });
  }

  @Test
  void layoutCountsWithoutSending() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            DispatchLayout layout = buffer.dispatchLayout(routing(group.rank()));
            if (group.rank() == 0) {
              assertThat(ints(layout.tokensPerRank())).containsExactly(2, 2);
              assertThat(ints(layout.tokensPerExpert())).containsExactly(1, 1, 1, 2);
              assertThat(layout.tokenInRank().segment().toArray(ValueLayout.JAVA_BYTE))
                  .containsExactly(1, 1, 1, 0, 0, 1);
            } else {
              assertThat(ints(layout.tokensPerRank())).containsExactly(1, 1);
              assertThat(ints(layout.tokensPerExpert())).containsExactly(1, 1, 1, 0);
            }
            assertThat(ints(layout.tokensPerNode())).containsExactly(group.rank() == 0 ? 3 : 2);
          }
        });
  }

  @Test
  void receivedRowsMayBeDispatchedAgain() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            long[] ids = new long[(int) d.rows() * 2];
            Arrays.fill(ids, -1);
            for (int i = 0; i < d.rows(); i++) {
              ids[2 * i] = 3L - group.rank();
            }
            // Peers overwrite the rows during the send unless the engine copies them first.
            Dispatch next = buffer.dispatch(d.x(), Routing.of(Tensor.of(ids, d.rows(), 2)));
            if (group.rank() == 1) {
              assertThat(heads(next.x())).containsExactly(1, 2, 11, 1, 3, 12);
            }
          }
        });
  }

  static Tensor constant(float value, int rows) {
    short[] values = new short[rows * HIDDEN];
    Arrays.fill(values, bf16(value));
    return Tensor.ofBf16(values, rows, HIDDEN);
  }
}
