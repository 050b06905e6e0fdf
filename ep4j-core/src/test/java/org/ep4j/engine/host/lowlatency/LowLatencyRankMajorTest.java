package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.buffer.Tensors.longs;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.MAX_TOKENS;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.assertSums;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.onBothRanks;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.range;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;

import java.util.Arrays;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.RankFailedException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** RANK_MAJOR on a case computed by hand; {@code LowLatencyPropertyTest} covers all shapes. */
class LowLatencyRankMajorTest {
  private static final LowLatencyDispatchOptions BY_RANKS =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  private static final LowLatencyCombineOptions SUM = LowLatencyCombineOptions.DEFAULT;

  private static RankMajorDispatch dispatch(ExpertBuffer buffer) {
    int rank = buffer.rank();
    return buffer.lowLatencyDispatchByRank(rows(rank), routing(rank), BY_RANKS);
  }

  /** Rows for a combine, all zero. */
  static Tensor empty() {
    return Tensor.ofBf16(new short[2 * MAX_TOKENS * HIDDEN], 2, MAX_TOKENS, HIDDEN);
  }

  /**
   * Outputs of the experts of {@code rank} for its rows, weighted and summed; other rows are NaN.
   */
  private static Tensor runExperts(int rank, RankMajorDispatch d) {
    short[] values = new short[2 * MAX_TOKENS * HIDDEN];
    Arrays.fill(values, (short) 0x7FC0);
    Tensor choices = d.topkIdx();
    Tensor weights = d.topkWeights();
    for (int row = 0; row < 2 * MAX_TOKENS; row++) {
      if (row % MAX_TOKENS >= d.counts().getInt(row / MAX_TOKENS)) {
        continue;
      }
      float sum = 0;
      for (int k = 2 * row; k < 2 * row + 2; k++) {
        int local = (int) choices.getLong(k);
        if (local >= 0) {
          float value = 20 * (2 * rank + local) + d.x().getFloat((long) row * HIDDEN);
          sum += weights.getFloat(k) * value;
        }
      }
      Arrays.fill(values, row * HIDDEN, (row + 1) * HIDDEN, bf16(sum));
    }
    return Tensor.ofBf16(values, 2, MAX_TOKENS, HIDDEN);
  }

  private static void assertRow(
      RankMajorDispatch d, int row, int token, float value, long[] choices, float[] weights) {
    assertThat(d.handle().srcInfo().getInt(row)).isEqualTo(token);
    assertThat(d.x().getFloat((long) row * HIDDEN)).isEqualTo(value);
    for (int k = 0; k < 2; k++) {
      assertThat(d.topkIdx().getLong(2 * row + k)).isEqualTo(choices[k]);
      assertThat(d.topkWeights().getFloat(2 * row + k)).isEqualTo(weights[k]);
    }
  }

  @Test
  void everyRowArrivesOnceWithItsChoices() {
    onBothRanks(
        (buffer, rank) -> {
          RankMajorDispatch d = dispatch(buffer);
          assertThat(d.x().shape()).containsExactly(2, MAX_TOKENS, HIDDEN);
          assertThat(d.topkIdx().shape()).containsExactly(2, MAX_TOKENS, 2);
          assertThat(ints(d.counts())).containsExactly(2, 1);
          assertThat(longs(d.handle().layoutRange()))
              .containsExactly(range(0, 2), range(MAX_TOKENS, 1));
          if (rank == 0) {
            assertRow(d, 0, 0, 1, new long[] {-1, 1}, new float[] {0, 0.25f});
            assertRow(d, 1, 1, 2, new long[] {0, -1}, new float[] {1, 0});
            assertRow(d, 3, 0, 11, new long[] {0, 1}, new float[] {3, 4});
          } else {
            assertRow(d, 0, 0, 1, new long[] {1, -1}, new float[] {0.5f, 0});
            assertRow(d, 1, 2, 3, new long[] {0, 1}, new float[] {0.75f, 2});
            assertRow(d, 3, 1, 12, new long[] {-1, 0}, new float[] {0, 5});
          }
        });
  }

  @Test
  void combineAddsTheRanksPartialSums() {
    onBothRanks(
        (buffer, rank) -> {
          RankMajorDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d);
          assertSums(rank, buffer.lowLatencyCombine(y, routing(rank), d.handle(), SUM).x());
        });
  }

  @Test
  void routingNeedsNoWeights() {
    onBothRanks(
        (buffer, rank) -> {
          Routing weighed = routing(rank);
          Routing bare = new Routing(weighed.topkIdx(), null);
          RankMajorDispatch d = buffer.lowLatencyDispatchByRank(rows(rank), bare, BY_RANKS);
          assertThat(d.topkIdx().dimensions()).isEqualTo(3);
          assertThat(d.hasWeights()).isFalse();
          assertThatThrownBy(d::topkWeights)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.RESULT_MISSING.id());
          buffer.lowLatencyCombine(empty(), bare, d.handle(), SUM);
        });
  }

  @Test
  void layoutOfHighThroughputIsRefused() {
    onBothRanks(
        (buffer, rank) ->
            assertThatThrownBy(
                    () ->
                        buffer.lowLatencyDispatch(Layout.FLAT, rows(rank), routing(rank), BY_RANKS))
                .hasMessageStartingWith(ErrorCode.OPTION_NOT_FOR_LAYOUT.id()));
  }

  @Test
  void statisticsCountTokensOfEachExpert() {
    onBothRanks(
        (buffer, rank) -> {
          Tensor stats = Tensor.of(new int[] {10, 20}, 2);
          LowLatencyDispatchOptions counting =
              LowLatencyDispatchOptions.builder().cumulativeStats(stats).build();
          buffer.lowLatencyDispatchByRank(rows(rank), routing(rank), counting);
          assertThat(ints(stats)).containsExactly(12, 22);
        });
  }

  @Test
  void combineRefusesWhatDoesNotFit() {
    onBothRanks(
        (buffer, rank) -> {
          RankMajorDispatch d = dispatch(buffer);
          assertRefused(
              buffer,
              LowLatencyCase.expertRows(),
              d,
              SUM,
              ErrorCode.WRONG_TENSOR,
              "y = BF16[2, 6, 128]@heap");
          assertRefused(
              buffer,
              empty(),
              d,
              LowLatencyCombineOptions.builder().logFmt(true).build(),
              ErrorCode.OPTION_NOT_FOR_LAYOUT,
              "logFmt = true");
          assertRefused(
              buffer,
              empty(),
              d,
              LowLatencyCombineOptions.builder().partialRounding(true).build(),
              ErrorCode.OPTION_NOT_FOR_LAYOUT,
              "partialRounding = true");
          buffer.lowLatencyCombine(empty(), routing(rank), d.handle(), SUM);
        });
  }

  private static void assertRefused(
      ExpertBuffer buffer,
      Tensor y,
      LowLatencyDispatch d,
      LowLatencyCombineOptions options,
      ErrorCode code,
      String argument) {
    assertThatThrownBy(
            () -> buffer.lowLatencyCombine(y, routing(buffer.rank()), d.handle(), options))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.message(argument + "; it must be "));
  }

  @Test
  void ranksThatDisagreeGetAnError() {
    assertThatThrownBy(
            () ->
                onBothRanks(
                    (buffer, rank) -> {
                      if (rank == 0) {
                        dispatch(buffer);
                      } else {
                        LowLatencyCase.dispatch(buffer);
                      }
                    }))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageContaining("dispatch of BF16, RANK_MAJOR, topK 2 with weights");
  }
}
