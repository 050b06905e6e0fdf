package org.ep4j.cuda.engine.throughput;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

class CountingTilesTest {
  private static final int H200 = 231_424;

  /** Words of 96 ranks with 1536 experts; between nodes those of a schedule follow. */
  private static final long WORDS = 16_000;

  @Test
  void theChunkScheduleBetweenNodesHasRoomBesideTheCounters() {
    CountingTiles within = CountingTiles.of(H200, WORDS, 96, 1536);
    assertThat(within.warps()).isEqualTo(16);
    assertThat(within.bytes()).isEqualTo(H200);

    long schedule = InternodeDispatcher.scheduleBytes(11);
    CountingTiles between = CountingTiles.of(H200, WORDS + schedule, 96, 1536);
    assertThat(between.warps()).isEqualTo(8);
    assertThat(between.bytes()).isLessThanOrEqualTo(H200);
  }

  @Test
  void countersThatDoNotFitAreRefused() {
    assertThatThrownBy(() -> CountingTiles.of(H200, WORDS, 96, 20_000))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_EXPERT_COUNTERS.id());
  }
}
