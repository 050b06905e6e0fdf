package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.MAX_TOKENS;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.assertSums;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.expertRows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.onBothRanks;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.runExperts;

import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.RankFailedException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Weights that arrive with EXPERT_MAJOR rows, on a case computed by hand. */
class LowLatencyWeightsTest {
  private static final LowLatencyDispatchOptions WEIGHTED =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).deliverWeights(true).build();

  private static LowLatencyDispatch weighted(ExpertBuffer buffer) {
    int rank = buffer.rank();
    return buffer.lowLatencyDispatch(rows(rank), routing(rank), WEIGHTED);
  }

  @Test
  void everyRowArrivesWithItsWeight() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = weighted(buffer);
          assertThat(d.hasWeights()).isTrue();
          Tensor weights = d.rowWeights();
          assertThat(weights.shape()).containsExactly(2, 2 * MAX_TOKENS);
          float[] expected =
              rank == 0 ? new float[] {1, 3, 0.25f, 4} : new float[] {0.75f, 5, 0.5f, 2};
          for (int row = 0; row < 4; row++) {
            int at = row / 2 * 2 * MAX_TOKENS + row % 2;
            assertThat(weights.getFloat(at)).as("row %d", row).isEqualTo(expected[row]);
          }
          Tensor y = runExperts(rank, d, expertRows());
          assertSums(
              rank,
              buffer
                  .lowLatencyCombine(y, routing(rank), d.handle(), LowLatencyCombineOptions.DEFAULT)
                  .x());
        });
  }

  @Test
  void resultWithoutWeightsSaysSo() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          assertThat(d.hasWeights()).isFalse();
          assertMissing(d);
          RankMajorDispatch byRank =
              buffer.lowLatencyDispatchByRank(rows(rank), routing(rank), WEIGHTED);
          assertThat(byRank.hasWeights()).isTrue();
          assertMissing(byRank);
        });
  }

  private static void assertMissing(LowLatencyDispatch d) {
    assertThatThrownBy(d::rowWeights)
        .isInstanceOf(IllegalStateException.class)
        .hasMessageStartingWith(ErrorCode.RESULT_MISSING.id());
  }

  @Test
  void routingWithoutWeightsIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          Routing bare = Routing.of(routing(rank).topkIdx());
          assertThatThrownBy(() -> buffer.lowLatencyDispatch(rows(rank), bare, WEIGHTED))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(ErrorCode.WEIGHTS_MISSING.id());
          weighted(buffer);
        });
  }

  @Test
  void ranksThatDisagreeGetAnError() {
    assertThatThrownBy(
            () ->
                onBothRanks(
                    (buffer, rank) -> {
                      if (rank == 0) {
                        weighted(buffer);
                      } else {
                        dispatch(buffer);
                      }
                    }))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageContaining("dispatch of BF16 with deliverWeights");
  }
}
