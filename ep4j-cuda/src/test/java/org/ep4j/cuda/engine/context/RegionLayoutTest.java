package org.ep4j.cuda.engine.context;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class RegionLayoutTest {
  private static final int TOP_K = 2;

  /** Wider rows are combined in passes of columns: passes without columns would never end. */
  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"BF16", "FP16", "FP32"})
  void smallestRowsReturnInPasses(DType rowDType) {
    RegionLayout layout = layout(2, 8, rowDType, 4);
    assertThat(layout.columnsOfAPass(DType.FP32)).isPositive();
    assertThat(layout.columnsOfAPass(rowDType)).isGreaterThanOrEqualTo(8);
  }

  /** A rank sums rows for its own tokens in place; each token has two choices. */
  @ParameterizedTest
  @CsvSource({"2, 1", "3, 2", "4, 2"})
  void inOneNodeOnlyRowsOfOtherRanksHaveReturnSlots(int ranks, int rowsOfAToken) {
    int tokens = 1024;
    int hidden = 4096;
    RegionLayout layout = layout(ranks, hidden, DType.FP32, tokens);
    assertThat(layout.returnWeights - layout.returnBuffer)
        .isEqualTo((long) tokens * rowsOfAToken * hidden * Float.BYTES);
  }

  /** A single rank has no returning rows, but row metadata uses the same memory. */
  @Test
  void metadataFitsIntoTheReturnBuffer() {
    RegionLayout layout = layout(1, 4096, DType.FP32, 1024);
    assertThat(layout.returnWeights - layout.returnBuffer)
        .isGreaterThanOrEqualTo(
            layout.receiveSlots * RowMetadataSize.bytes(layout.maxScaleBytes, TOP_K, false))
        .isLessThan(layout.receiveSlots * layout.returnRowBytes);
    assertThat(layout.bytes).isEqualTo(layout.returnWeights);
  }

  /** FLAT delivers a row of a token once, and its metadata lies in the receive arrays. */
  @Test
  void aBufferReservesForItsLayoutsOnly() {
    HighThroughputConfig.Builder limits = HighThroughputConfig.builder().maxTokens(1024);
    RegionLayout flat = layout(2, limits.layouts(Layout.FLAT));
    RegionLayout grouped = layout(2, limits.layouts(Layout.EXPERT_MAJOR));
    assertThat(flat.capacity).isEqualTo(2 * 1024);
    assertThat(grouped.capacity).isEqualTo(2 * 1024 * TOP_K + 127 * 2);
    assertThat(layout(1, limits.layouts(Layout.FLAT)).returnWeights)
        .as("nothing returns, no metadata")
        .isEqualTo(layout(1, limits.layouts(Layout.FLAT)).returnBuffer);
    assertThat(grouped.words - flat.words).isPositive();
    assertThat(flat.bytes).isLessThan(grouped.bytes);
  }

  @Test
  void nothingIsReservedForRowsThatCombinesReadInPlace() {
    HighThroughputConfig.Builder limits =
        HighThroughputConfig.builder().maxTokens(1024).layouts(Layout.FLAT);
    RegionLayout pushes = layout(2, limits);
    RegionLayout reads = layout(2, limits.combineInPlace(true));
    assertThat(pushes.returnWeights - pushes.returnBuffer).isEqualTo(1024L * 4096 * 2);
    assertThat(reads.returnBuffer).isEqualTo(reads.bytes);
    assertThat(reads.bytes - (reads.combineWeights - reads.received.rows)).isLessThan(64 << 20);
    RegionLayout grouped =
        layout(2, limits.layouts(Layout.FLAT, Layout.EXPERT_MAJOR).combineInPlace(true));
    assertThat(grouped.returnBuffer).as("sums of experts are pushed").isLessThan(grouped.bytes);
  }

  @Test
  void nothingIsReservedForRowsOfExpertsWhereRanksHoldFewOfAToken() {
    HighThroughputConfig.Builder limits =
        HighThroughputConfig.builder()
            .maxTokens(1024)
            .layouts(Layout.EXPERT_MAJOR)
            .combineInPlace(true);
    RegionLayout few = layout(TOP_K, limits);
    assertThat(few.returnWeights).as("no weights of rows that return").isEqualTo(few.bytes);
  }

  private static RegionLayout layout(int ranks, HighThroughputConfig.Builder limits) {
    return new RegionLayout(
        BufferConfig.builder()
            .hidden(4096)
            .topK(TOP_K)
            .placement(ExpertPlacement.blocks(4, ranks))
            .highThroughput(limits.build())
            .build(),
        Nodes.one(ranks));
  }

  private static RegionLayout layout(int ranks, int hidden, DType rowDType, int tokens) {
    return new RegionLayout(
        BufferConfig.builder()
            .hidden(hidden)
            .topK(TOP_K)
            .placement(ExpertPlacement.blocks(4, ranks))
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(tokens)
                    .rowDType(rowDType)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .build(),
        Nodes.one(ranks));
  }
}
