package org.ep4j.cuda.engine.throughput;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.CombineOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class InternodeCombineMemoryTest {
  private static final int H200 = 231_424;
  private static final CombineOptions WEIGHTED =
      CombineOptions.builder().applyWeights(true).build();

  private static InternodeCombineMemory ofSingleRankNodes(int sharedBytes, int nodes) {
    return InternodeCombineMemory.of(sharedBytes, nodes, nodes, 1, nodes - 1);
  }

  /** Each number of returning warps leaves as many fewer summing warps. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void sumsFitIntoSmallGpus(int returning) {
    InternodeCombineMemory memory = ofSingleRankNodes(100_352, 2);
    assertThat(memory.grouped(5, returning, 10 - returning, WEIGHTED)).isLessThan(100_352);
  }

  @Test
  void sumsOfTooManyNodesAreRefused() {
    assertThat(ofSingleRankNodes(H200, 512).grouped(5, 1, 9, WEIGHTED)).isLessThan(H200);
    InternodeCombineMemory memory = ofSingleRankNodes(H200, 1024);
    assertRefused(() -> memory.grouped(5, 1, 9, WEIGHTED));
  }

  /** Below 2048 bytes, a load stage has no room for the rows of a token. */
  @ParameterizedTest
  @ValueSource(ints = {8, 512, 1024, 1100, 1148, 1200, 2048})
  void loadStagesHaveRoomForTheRowsOfATokenOrAreRefused(int nodes) {
    InternodeCombineMemory memory = ofSingleRankNodes(H200, nodes);
    if (nodes > 512) {
      assertRefused(() -> memory.loadStage(3, 12));
    } else {
      assertThat(memory.loadStage(3, 12) % 128).isZero();
      assertThat(memory.loadStage(3, 12)).isGreaterThanOrEqualTo(2048);
      assertThat(memory.byExperts(3, 12)).isLessThanOrEqualTo(H200);
    }
  }

  private static void assertRefused(Runnable call) {
    assertThatThrownBy(call::run)
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.CUDA_EXPERT_COUNTERS.id())
        .hasMessageContaining(" of " + H200 + " bytes");
  }
}
