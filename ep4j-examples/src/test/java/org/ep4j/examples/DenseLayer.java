package org.ep4j.examples;

import java.util.Arrays;

/** The layer on one machine: every expert of every token, one after the other. */
final class DenseLayer {
  private DenseLayer() {}

  /** The output for tokens [T, hidden]. */
  static float[] forward(ToyModel model, float[] x) {
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
