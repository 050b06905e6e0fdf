package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.Nodes;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class RegionLayoutTest {
  private static final int TOP_K = 2;
  private static final int HIDDEN = 8;

  /** Wider rows are combined in passes of columns: a pass of no columns would never end. */
  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"BF16", "FP16", "FP32"})
  void everyRowOfTheSmallestSizeGoesHomeInPasses(DType rowDType) {
    RegionLayout layout = layout(2, rowDType, 4);
    assertThat(layout.columnsOfAPass(DType.FP32)).isPositive();
    assertThat(layout.columnsOfAPass(rowDType)).isGreaterThanOrEqualTo(8);
  }

  /** What a rank holds for its own tokens is summed where it is. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void inOneNodeOnlyRowsOfOtherRanksHaveAPlaceAtHome(int ranks) {
    int tokens = 8192;
    RegionLayout layout = layout(ranks, DType.FP32, tokens);
    long companions = layout.landingRows * Companions.bytes(layout.maxScaleBytes, TOP_K, false);
    long rows = Math.min(TOP_K, ranks - 1) * layout.homeRowBytes * tokens;
    assertThat(layout.homeWeights - layout.home).isEqualTo(Math.max(companions, rows));
  }

  private static RegionLayout layout(int ranks, DType rowDType, int tokens) {
    return new RegionLayout(
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(TOP_K)
            .placement(ExpertPlacement.blocks(4, ranks))
            .maxTokens(tokens)
            .rowDType(rowDType)
            .build(),
        Nodes.one(ranks));
  }
}
