package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.BufferConfig;
import org.ep4j.ExpertPlacement;
import org.ep4j.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LowLatencyLayoutTest {
  private static final long MEBIBYTE = 1 << 20;

  private static LowLatencyLayout layout(int ranks, int tokens) {
    return new LowLatencyLayout(
        BufferConfig.builder()
            .hidden(7168)
            .topK(8)
            .placement(ExpertPlacement.blocks(288, ranks))
            .lowLatencyMaxTokens(tokens)
            .build());
  }

  /** The reference takes 2.15 GB at this shape. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4, 8})
  void aDecodeBatchNeedsLittleMemoryThatPeersReach(int ranks) {
    assertThat(layout(ranks, 128).bytes).isLessThan(32 * MEBIBYTE);
  }

  @Test
  void areasOfOddAndEvenNumbersDoNotOverlap() {
    LowLatencyLayout layout = layout(4, 128);
    long rows = 8L * 128 * 2 * 7168;
    assertThat(layout.headers + layout.areaBytes).isGreaterThanOrEqualTo(layout.rows + rows);
    assertThat(layout.bytes).isEqualTo(layout.headers + 2 * layout.areaBytes);
    assertThat(layout.headers + layout.wordBytes).isLessThanOrEqualTo(layout.rows);
  }

  @Test
  void moreTokensThanAWordCountsAreRefused() {
    assertThatThrownBy(() -> layout(2, 1 << 16))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("lowLatencyMaxTokens");
  }
}
