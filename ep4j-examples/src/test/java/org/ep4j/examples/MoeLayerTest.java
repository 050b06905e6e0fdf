package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
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
              try (MoeLayer layer = new MoeLayer(group, model, TOKENS)) {
                return layer.forward(model.tokens(group.rank(), TOKENS));
              }
            });

    for (int rank = 0; rank < ranks; rank++) {
      assertThat(results.get(rank))
          .containsExactly(dense(model.tokens(rank, TOKENS)), within(1e-5f));
    }
  }

  @Test
  void itIsAProgram() {
    MoeLayer.main();
  }

  /** Every expert of every token, one after the other. */
  private float[] dense(float[] x) {
    float[] router = model.router();
    int hidden = model.hidden();
    float[] y = new float[x.length];
    int[] idx = new int[model.topK()];
    float[] weights = new float[model.topK()];
    for (int t = 0; t < x.length / hidden; t++) {
      float[] token = Arrays.copyOfRange(x, t * hidden, (t + 1) * hidden);
      model.route(router, token, idx, weights, 0);
      for (int k = 0; k < idx.length; k++) {
        float[] result = token.clone();
        model.apply(model.expert(idx[k]), result);
        for (int i = 0; i < hidden; i++) {
          y[t * hidden + i] += weights[k] * result[i];
        }
      }
    }
    return y;
  }
}
