package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ExpertPlacement;
import org.ep4j.engine.Nodes;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class RegionLayoutTest {
  /** Wider rows are combined in passes of columns: a pass of no columns would never end. */
  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"BF16", "FP16", "FP32"})
  void everyRowOfTheSmallestSizeGoesHomeInPasses(DType rowDType) {
    RegionLayout layout =
        new RegionLayout(
            BufferConfig.builder()
                .hidden(8)
                .topK(2)
                .placement(ExpertPlacement.blocks(4, 2))
                .maxTokens(4)
                .rowDType(rowDType)
                .build(),
            Nodes.one(2));
    assertThat(layout.columnsOfAPass(DType.FP32)).isPositive();
    assertThat(layout.columnsOfAPass(rowDType)).isGreaterThanOrEqualTo(8);
  }
}
