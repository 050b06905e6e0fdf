package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;

import org.ep4j.BufferSizes;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PlannedMemoryTest {
  /** The planner asks for one rank; the engine, asked for all of them, finds no larger one. */
  @ParameterizedTest
  @EnumSource(PlanKind.class)
  void theMemoryIsThatOfTheLargestRank(PlanKind kind) {
    int[] rankOf = {0, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6, 7};
    for (ExpertPlacement placement :
        new ExpertPlacement[] {ExpertPlacement.blocks(16, 8), ExpertPlacement.table(rankOf, 8)}) {
      for (int ranksPerNode : new int[] {1, 2, 8}) {
        PlanRequest request =
            Requests.ht(8, ranksPerNode)
                .kind(kind)
                .experts(placement.experts())
                .topK(4)
                .placement(ReplicatedPlacement.of(placement))
                .build();
        BufferConfig.Builder config =
            BufferConfig.builder()
                .hidden(request.hidden())
                .topK(request.topK())
                .placement(placement)
                .ranksPerNode(ranksPerNode)
                .engine(EngineName.CUDA)
                .backend(request.backend());
        BufferSizes largest =
            PlannedMemory.engine()
                .sizes(
                    (kind == PlanKind.HT
                            ? config.highThroughput(request.tokens())
                            : config.lowLatency(request.tokens()))
                        .build());

        assertThat(PlannedMemory.of(request)).as("%s", request).isEqualTo(largest);
      }
    }
  }
}
