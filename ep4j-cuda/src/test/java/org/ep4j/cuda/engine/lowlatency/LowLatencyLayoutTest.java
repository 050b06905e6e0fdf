package org.ep4j.cuda.engine.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LowLatencyLayoutTest {
  private static final long MEBIBYTE = 1 << 20;

  private static LowLatencyLayout layout(int ranks, int tokens) {
    return layout(ranks, tokens, ranks);
  }

  private static LowLatencyLayout layout(int ranks, int tokens, int ranksPerNode) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(7168)
            .topK(7)
            .placement(ExpertPlacement.blocks(288, ranks))
            .lowLatency(tokens)
            .ranksPerNode(ranksPerNode)
            .build();
    return new LowLatencyLayout(config, Nodes.of(config));
  }

  /** DeepEP V1 takes 2.15 GB at this shape. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4, 8})
  void aDecodeBatchNeedsLittleSymmetricMemory(int ranks) {
    assertThat(layout(ranks, 128).bytes).isLessThan(64 * MEBIBYTE);
  }

  @Test
  void areasOfOddAndEvenNumbersDoNotOverlap() {
    LowLatencyLayout layout = layout(4, 128);
    long rows = 7L * 128 * 2 * 7168;
    assertThat(layout.headers + layout.areaBytes).isGreaterThanOrEqualTo(layout.rows + rows);
    assertThat(layout.bytes).isEqualTo(layout.headers + 2 * layout.areaBytes);
    assertThat(layout.headers + layout.wordBytes).isLessThanOrEqualTo(layout.rows);
  }

  @Test
  void packetsHaveTheirOwnMemoryAndPlainRowsUseBoth() {
    LowLatencyLayout layout = layout(4, 128);
    long packets = 4L * 128 * 7 * 17 * 128;
    assertThat(layout.rows(true)).isGreaterThanOrEqualTo(layout.packets + packets);
    assertThat(layout.wordBytes).as("cleared").isEqualTo(layout.rows(true) - layout.headers);
    assertThat(layout.packets % 128).isZero();
    assertThat(layout.areaBytes % 128).isZero();
    long max = 7L * 128 * 2 * 7168;
    assertThat(layout.headers + layout.areaBytes).isGreaterThanOrEqualTo(layout.rows(false) + max);
    assertThat(layout(4, 128, 2).rows(false)).isEqualTo(layout(4, 128, 2).rows);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3, 128})
  void betweenNodesAWireCanCarryTheWordsOfASource(int tokens) {
    LowLatencyLayout layout = layout(4, tokens, 2);
    assertThat(List.of(layout.counts, layout.entries, layout.weights, layout.packed))
        .isSorted()
        .allMatch(offset -> offset % 16 == 0)
        .allMatch(offset -> offset < layout.headers + layout.sourceBytes);
    assertThat(layout.sourceBytes % 16).isZero();
    assertThat(layout.flags).isEqualTo(layout.headers + 4 * layout.sourceBytes);
    assertThat(layout.headers + layout.wordBytes).isLessThanOrEqualTo(layout.rows);
  }

  @Test
  void eachWriterOfAnotherNodeHasRowsOfItsOwnIfItCanBeMasked() {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(7168)
            .topK(7)
            .placement(ExpertPlacement.blocks(288, 4))
            .lowLatency(LowLatencyConfig.builder().maxTokens(16).masking(true).build())
            .ranksPerNode(2)
            .build();
    LowLatencyLayout layout = new LowLatencyLayout(config, Nodes.of(config));
    long rows = 16L * 7 * 2 * 7168;
    assertThat(layout.shareBytes).isEqualTo(rows);
    assertThat(layout.headers + layout.internodeAreaBytes)
        .isGreaterThanOrEqualTo(layout.rows + 4 * rows);
    assertThat(layout.internodeBytes).isEqualTo(layout.headers + 2 * layout.internodeAreaBytes);
    // A row for each choice of each token, its marks, and the words, of two operations.
    assertThat(layout.pendingCommands).isGreaterThanOrEqualTo(2 * (16 * 8 + 4));
    assertThat(layout(4, 16, 2).internodeBytes).isEqualTo(layout(4, 16, 2).bytes);
  }

  /** Words of an operation are put at once; see {@code put_words}. */
  @Test
  void thePutOfTheWordsIsTheLongest() {
    LowLatencyLayout layout = layout(4, 8192, 2);
    assertThat(layout.putBytes)
        .isEqualTo(layout.entries - layout.headers + 8192 * 7 * Long.BYTES)
        .isGreaterThanOrEqualTo(layout.packed - layout.weights);
    assertThat(layout(4, 1, 2).putBytes).as("a row").isEqualTo(2 * 7168);
  }

  @Test
  void moreTokensThanAWordCountsAreRefused() {
    assertThatThrownBy(() -> layout(2, 1 << 16))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_LOW_LATENCY_TOKENS.id());
  }
}
