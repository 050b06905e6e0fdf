package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TwoLayersTest {
  private static final int TOKENS = 11;

  private final ToyModel first = new ToyModel(64, 96, 6, 3, 7);
  private final ToyModel second = new ToyModel(64, 96, 6, 3, 70);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void layersOnOneBufferComputeWhatOneMachineWould(int ranks) {
    List<float[]> results =
        ThreadRanks.call(ranks, group -> TwoLayers.run(group, first, second, TOKENS));

    for (int rank = 0; rank < ranks; rank++) {
      float[] between = withResidual(first, first.tokens(rank, TOKENS));
      assertThat(results.get(rank)).containsExactly(withResidual(second, between), within(1e-4f));
    }
  }

  private static float[] withResidual(ToyModel model, float[] x) {
    float[] y = DenseLayer.forward(model, x);
    for (int i = 0; i < y.length; i++) {
      y[i] += x[i];
    }
    return y;
  }
}
