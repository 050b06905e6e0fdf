package org.ep4j.cuda.engine.context;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SmChoiceTest {
  @ParameterizedTest(name = "{0} pieces, {1} SMs at most")
  @CsvSource({
    "0, 132, 8",
    "14, 132, 8",
    "57, 132, 9",
    "224, 132, 29",
    "7168, 132, 132",
    "14, 4, 4"
  })
  void lowLatencyTakesAnSmForEightPiecesAndEightAtLeast(long pieces, int available, int expected) {
    assertThat(SmChoice.forLatency(0, available, pieces, false)).isEqualTo(expected);
  }

  @Test
  void betweenNodesTheLinkLimitsTheNumberOfSms() {
    assertThat(SmChoice.forLatency(0, 132, 7168, true)).isEqualTo(12);
    assertThat(SmChoice.settle(0, 132, 1, true)).isEqualTo(12);
    assertThat(SmChoice.settle(0, 132, 1, false)).isEqualTo(32);
  }

  @Test
  void requestedSmsAreUsedOrRefused() {
    assertThat(SmChoice.forLatency(3, 132, 7168, false)).isEqualTo(3);
    assertThat(SmChoice.settle(66, 132, 2, false)).isEqualTo(66);
    assertThatThrownBy(() -> SmChoice.settle(67, 132, 2, false))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_SMS.id())
        .hasMessageContaining("132 SMs, 2 ranks on the device");
  }
}
