package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.buffer.Tensors.longs;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.BF16;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.MAX_TOKENS;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.ZERO_COPY;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.assertSums;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.expertRows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.range;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.runExperts;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import org.ep4j.BufferSizes;
import org.ep4j.BufferStatistics;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.buffer.Tensors;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Low latency on {@link LowLatencyCase}. */
class LowLatencyTest {
  private static void onBothRanks(LowLatencyCase.Body body) {
    LowLatencyCase.onBothRanks(config().highThroughput(4).build(), body);
  }

  /** Value of row {@code row} of a local expert. */
  private static float row(Tensor x, int expert, int row) {
    return x.getFloat((long) (expert * 2 * MAX_TOKENS + row) * HIDDEN);
  }

  @Test
  void rowsOfAnExpertAreOrderedBySourceRankAndToken() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          assertThat(d.x().shape()).containsExactly(2, 2 * MAX_TOKENS, HIDDEN);
          assertThat(d.hasScales()).isFalse();
          assertThatThrownBy(d::scales)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.RESULT_MISSING.id());
          Tensor source = d.handle().srcInfo();
          if (rank == 0) {
            assertThat(ints(d.counts())).containsExactly(2, 2);
            assertThat(longs(d.handle().layoutRange()))
                .containsExactly(range(0, 1), range(1, 1), range(0, 1), range(1, 1));
            assertThat(row(d.x(), 0, 0)).isEqualTo(2);
            assertThat(row(d.x(), 0, 1)).isEqualTo(11);
            assertThat(row(d.x(), 1, 0)).isEqualTo(1);
            assertThat(row(d.x(), 1, 1)).isEqualTo(11);
            assertThat(source.getInt(0)).isEqualTo(1);
            assertThat(source.getInt(1)).isZero();
          } else {
            assertThat(ints(d.counts())).containsExactly(2, 2);
            assertThat(longs(d.handle().layoutRange()))
                .containsExactly(range(0, 1), range(1, 1), range(0, 2), range(2, 0));
            assertThat(row(d.x(), 0, 0)).isEqualTo(3);
            assertThat(row(d.x(), 0, 1)).isEqualTo(12);
            assertThat(row(d.x(), 1, 0)).isEqualTo(1);
            assertThat(row(d.x(), 1, 1)).isEqualTo(3);
            assertThat(source.getInt(2L * MAX_TOKENS)).isZero();
            assertThat(source.getInt(2L * MAX_TOKENS + 1)).isEqualTo(2);
          }
        });
  }

  @Test
  void combineWeighsTheExpertsRows() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d, expertRows());
          LowLatencyCombine c =
              buffer.lowLatencyCombine(
                  y, routing(rank), d.handle(), LowLatencyCombineOptions.DEFAULT);
          assertSums(rank, c.x());
          assertThat(c.event().isDone()).isTrue();
        });
  }

  @Test
  void zeroCopySendsFromTheRegionOfTheHandle() {
    onBothRanks(
        (buffer, rank) -> {
          for (int round = 0; round < 5; round++) {
            LowLatencyDispatch d = dispatch(buffer);
            Tensor y = buffer.lowLatencyCombineBuffer(d.handle());
            runExperts(rank, d, y);
            assertSums(rank, buffer.lowLatencyCombine(y, routing(rank), d.handle(), ZERO_COPY).x());
          }
        });
  }

  @Test
  void oneDispatchCanBeCombinedAgainAndAgain() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d, expertRows());
          for (int round = 0; round < 4; round++) {
            LowLatencyCombine copied =
                buffer.lowLatencyCombine(
                    y, routing(rank), d.handle(), LowLatencyCombineOptions.DEFAULT);
            assertSums(rank, copied.x());
            Tensor region = buffer.lowLatencyCombineBuffer(d.handle());
            region.segment().copyFrom(y.segment());
            assertSums(
                rank, buffer.lowLatencyCombine(region, routing(rank), d.handle(), ZERO_COPY).x());
          }
        });
  }

  @Test
  void slotsMaskedAfterDispatchAreSkipped() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d, expertRows());
          long[][] ids = {{-1, 1, -1, -1, 2, 3}, {0, -1, -1, 2}};
          float[][] weights = {{7, 0.25f, 7, 7, 0.5f, 0.25f}, {2, 7, 7, 0.5f}};
          Routing kept = Routing.of(ids[rank], weights[rank], 2);
          LowLatencyCombine c =
              buffer.lowLatencyCombine(y, kept, d.handle(), LowLatencyCombineOptions.DEFAULT);
          float[][] sums = {{5.25f, 0, 37.25f}, {22, 26}};
          assertThat(Tensors.heads(c.x())).containsExactly(sums[rank]);
        });
  }

  @Test
  void sumsGoWhereTheCallerWantsThem() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d, expertRows());
          int tokens = routing(rank).tokens();
          try (Arena arena = Arena.ofConfined()) {
            Tensor heap = Tensor.ofBf16(new short[tokens * HIDDEN], tokens, HIDDEN);
            Tensor nativeOut =
                Tensor.of(arena.allocate(2L * tokens * HIDDEN), DType.BF16, tokens, HIDDEN);
            for (Tensor out : List.of(heap, nativeOut)) {
              LowLatencyCombineOptions options =
                  LowLatencyCombineOptions.builder().out(out).build();
              LowLatencyCombine c = buffer.lowLatencyCombine(y, routing(rank), d.handle(), options);
              assertThat(c.x()).isSameAs(out);
              assertSums(rank, out);
            }
          }
        });
  }

  @Test
  void statisticsGrowByWhatWasReceivedAndWaited() {
    onBothRanks(
        (buffer, rank) -> {
          int[] received = {5, 6};
          long[] waited = new long[2];
          LowLatencyDispatchOptions options =
              LowLatencyDispatchOptions.builder()
                  .cumulativeStats(Tensor.of(received, 2))
                  .waitStats(Tensor.of(waited, 2))
                  .build();
          for (int round = 1; round <= 3; round++) {
            buffer.lowLatencyDispatch(rows(rank), routing(rank), options);
            assertThat(received).containsExactly(5 + 2 * round, 6 + 2 * round);
          }
          long before = waited[0] + waited[1];
          assertThat(before).isPositive();
          LowLatencyDispatch d = buffer.lowLatencyDispatch(rows(rank), routing(rank), BF16);
          long[] waitedInCombine = new long[2];
          buffer.lowLatencyCombine(
              expertRows(),
              routing(rank),
              d.handle(),
              LowLatencyCombineOptions.builder().waitStats(Tensor.of(waitedInCombine, 2)).build());
          assertThat(waitedInCombine[0] + waitedInCombine[1]).isPositive();
          assertThat(waited[0] + waited[1]).isEqualTo(before);
          BufferStatistics statistics = buffer.statistics();
          assertThat(statistics.lowLatencyDispatches()).isEqualTo(4);
          assertThat(statistics.lowLatencyCombines()).isEqualTo(1);
          assertThat(statistics.rowsSent()).isEqualTo(4L * (rank == 0 ? 4 : 2));
          assertThat(statistics.rowsReceived()).isEqualTo(4 * 3);
        });
  }

  @Test
  void quantisedRowsArriveWithTheirScales() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d =
              buffer.lowLatencyDispatch(
                  rows(rank), routing(rank), LowLatencyDispatchOptions.DEFAULT);
          Tensor scales = d.scales();
          assertThat(d.x().dtype()).isEqualTo(DType.FP8_E4M3);
          assertThat(scales.shape()).containsExactly(2, 2 * MAX_TOKENS, 1);
          float expected = (rank == 0 ? 2 : 3) * (1f / 448);
          assertThat(scales.getFloat(0)).isEqualTo(expected);
          byte[] values = new byte[HIDDEN];
          Arrays.fill(values, (byte) 0x7E); // 448
          assertThat(d.x().segment().asSlice(0, HIDDEN).toArray(ValueLayout.JAVA_BYTE))
              .isEqualTo(values);
        });
  }

  @Test
  void bothKindsOfOperationAlternateFreely() {
    onBothRanks(
        (buffer, rank) -> {
          for (int round = 0; round < 6; round++) {
            LowLatencyDispatch d = dispatch(buffer);
            buffer.dispatch(Tokens.of(rows(rank)), routing(rank), DispatchOptions.DEFAULT);
            Tensor y = runExperts(rank, d, expertRows());
            buffer.barrier();
            assertSums(
                rank,
                buffer
                    .lowLatencyCombine(
                        y, routing(rank), d.handle(), LowLatencyCombineOptions.DEFAULT)
                    .x());
          }
        });
  }

  @Test
  void asynchronousOperationsDeliverAfterTheirEvents() {
    onBothRanks(
        (buffer, rank) -> {
          try (Arena arena = Arena.ofConfined()) { // the operations run on another thread
            Tensor x = copy(rows(rank), arena);
            Tensor received = Tensor.of(arena.allocate(8, 8), DType.INT32, 2);
            Tensor waited = Tensor.of(arena.allocate(16, 8), DType.INT64, 2);
            LowLatencyDispatchOptions later =
                LowLatencyDispatchOptions.builder()
                    .format(BF16.format())
                    .cumulativeStats(received)
                    .waitStats(waited)
                    .execution(Execution.ASYNCHRONOUS)
                    .build();
            for (int round = 1; round <= 5; round++) {
              LowLatencyDispatch d = buffer.lowLatencyDispatch(x, routing(rank), later);
              d.event().await();
              assertThat(ints(received)).containsExactly(2 * round, 2 * round);
              LowLatencyCombineOptions follow =
                  LowLatencyCombineOptions.builder()
                      .execution(Execution.ASYNCHRONOUS.after(d.event()))
                      .build();
              Tensor y = copy(runExperts(rank, d, expertRows()), arena);
              LowLatencyCombine c = buffer.lowLatencyCombine(y, routing(rank), d.handle(), follow);
              assertSums(rank, c.x()); // waits for the event
              assertThat(c.event().isDone()).isTrue();
            }
          }
        });
  }

  private static Tensor copy(Tensor tensor, Arena arena) {
    MemorySegment memory = arena.allocate(tensor.byteSize(), 64).copyFrom(tensor.segment());
    return Tensor.of(memory, tensor.dtype(), tensor.shape());
  }

  @Test
  void communicationMemoryIsSmallAtTheUsualSizes() {
    BufferSizes sizes =
        ExpertBuffer.sizes(
            BufferConfig.builder().hidden(7168).topK(8).experts(288).lowLatency(128).build(), 8);
    assertThat(sizes.lowLatencyCommunicationBytes()).isLessThanOrEqualTo(64L << 20);
  }
}
