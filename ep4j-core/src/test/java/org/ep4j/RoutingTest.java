package org.ep4j;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class RoutingTest {
  @Test
  void arraysAreRowsOfChoices() {
    Routing routing = Routing.of(new int[] {0, 2, 3, -1}, new float[] {.5f, .5f, 1, 0}, 2);

    assertThat(routing.tokens()).isEqualTo(2);
    assertThat(routing.topK()).isEqualTo(2);
    assertThat(routing.topkIdx().getInt(3)).isEqualTo(-1);
    assertThat(Routing.of(new long[0], new float[0], 8).tokens()).isZero();
  }

  @Test
  void aPartOfARowIsRefusedRatherThanLeftOut() {
    assertThatThrownBy(() -> Routing.of(new int[5], new float[5], 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id())
        .hasMessageContaining("topkIdx = 5 ids");
    assertThatThrownBy(() -> Routing.of(new long[4], new float[6], 2))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.ROUTING_SHAPE.id())
        .hasMessageContaining("topkWeights = 6 weights");
  }

  @Test
  void choicesOfNoExpertAtAllAreRefused() {
    assertThatThrownBy(() -> Routing.of(new int[4], new float[4], 0))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("topK = 0");
  }
}
