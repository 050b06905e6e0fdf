package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MoeLayerTest {
  private static final int TOKENS = 13;

  private final ToyModel model = new ToyModel(64, 96, 6, 3, 7);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4})
  void ranksComputeWhatOneMachineWould(int ranks) {
    List<float[]> results =
        ThreadRanks.call(
            ranks,
            group -> {
              try (ExpertBuffer buffer = MoeLayer.open(group, model, TOKENS)) {
                return new MoeLayer(buffer, model).forward(model.tokens(group.rank(), TOKENS));
              }
            });

    for (int rank = 0; rank < ranks; rank++) {
      assertThat(results.get(rank))
          .containsExactly(DenseLayer.forward(model, model.tokens(rank, TOKENS)), within(1e-5f));
    }
  }

  @Test
  void itIsAProgram() {
    MoeLayer.main();
  }
}
