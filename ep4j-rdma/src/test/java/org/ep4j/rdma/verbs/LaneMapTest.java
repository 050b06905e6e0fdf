package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class LaneMapTest {
  @Test
  void oneProgressContextTakesPortsFirstAndThenQueuePairs() {
    LaneMap map = new LaneMap(1, 2, 2, 0);
    for (int lane = 0; lane < 16; lane++) {
      int pair = map.queuePair(lane);
      assertThat(map.port(pair)).isEqualTo(lane % 2);
      assertThat(pair / 2).isEqualTo(lane / 2 % 2);
    }
  }

  @Test
  void everyProgressContextUsesAllItsQueuePairs() {
    LaneMap map = new LaneMap(3, 2, 4, 1);
    for (int progressContext = 0; progressContext < 3; progressContext++) {
      int first = progressContext;
      assertThat(IntStream.range(0, 8).map(i -> map.queuePair(first + 3 * i)).distinct().count())
          .isEqualTo(map.queuePairs());
    }
  }

  @Test
  void progressContextsOfOneLaneUseAllPorts() {
    LaneMap map = new LaneMap(4, 2, 1, 0);
    assertThat(IntStream.range(0, 4).map(lane -> map.port(map.queuePair(lane))))
        .containsExactly(0, 1, 0, 1);
  }

  @Test
  void ranksThatShareTheirPortsBeginWithDifferentOnes() {
    LaneMap map = new LaneMap(1, 2, 1, 1);
    assertThat(IntStream.range(0, 4).map(lane -> map.port(map.queuePair(lane))))
        .containsExactly(1, 0, 1, 0);
  }
}
