package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.MAX_TOKENS;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.ZERO_COPY;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.assertSums;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.combine;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.runExperts;

import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** {@link LowLatencyCase} in buffers for longer rows. */
class LowLatencyShorterRowsTest {
  private static final int LARGEST = 4 * HIDDEN;

  private static void onBothRanks(LowLatencyCase.Body body) {
    LowLatencyCase.onBothRanks(config().hidden(LARGEST).build(), body);
  }

  /** Between them a dispatch and a combine of the longest rows use the same memory. */
  @Test
  void shorterRowsAreDeliveredAndSummedBetweenLongOnes() {
    onBothRanks(
        (buffer, rank) -> {
          for (int round = 0; round < 3; round++) {
            LowLatencyDispatch d = dispatch(buffer);
            assertThat(d.x().shape()).containsExactly(2, 2 * MAX_TOKENS, HIDDEN);
            Tensor sums = combine(buffer, d);
            assertThat(sums.size(1)).isEqualTo(HIDDEN);
            assertSums(rank, sums);
            Tensor longRows = Tensor.ofBf16(new short[LARGEST], 1, LARGEST);
            LowLatencyDispatch longest =
                buffer.lowLatencyDispatch(
                    longRows, LowLatencyCase.first(rank), LowLatencyCase.BF16);
            assertThat(longest.x().size(2)).isEqualTo(LARGEST);
          }
        });
  }

  @Test
  void theRegionOfACombineHasTheRowsOfItsDispatch() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor region = buffer.lowLatencyCombineBuffer(d.handle());
          assertThat(region.shape()).containsExactly(2, 2 * MAX_TOKENS, HIDDEN);
          runExperts(rank, d, region);
          assertSums(
              rank, buffer.lowLatencyCombine(region, routing(rank), d.handle(), ZERO_COPY).x());
        });
  }

  @Test
  void aCombineOfOtherRowsThanThoseOfItsDispatchIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y =
              Tensor.ofBf16(new short[2 * 2 * MAX_TOKENS * LARGEST], 2, 2 * MAX_TOKENS, LARGEST);
          assertThatThrownBy(
                  () ->
                      buffer.lowLatencyCombine(
                          y, routing(rank), d.handle(), LowLatencyCombineOptions.DEFAULT))
              .isInstanceOf(InvalidArgumentException.class)
              .hasMessageStartingWith(ErrorCode.WRONG_TENSOR.id())
              .hasMessageContaining("hidden of the dispatch");
        });
  }
}
