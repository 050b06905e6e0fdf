package org.ep4j.examples;

import java.util.Random;
import org.ep4j.routing.Routing;

/**
 * The arithmetic of a small Mixture-of-Experts layer on the heap: a router and experts of two
 * matrices with a ReLU between them. Weights follow from a seed, so every rank can compute its own.
 *
 * @param hidden elements of a token
 * @param inner elements between an expert's matrices
 * @param experts number of experts
 * @param topK experts of a token
 * @param seed of all weights
 */
record ToyModel(int hidden, int inner, int experts, int topK, long seed) {
  /** Weights of one expert, both matrices row-major. */
  record Expert(float[] up, float[] down) {}

  /** The weights of an expert. */
  Expert expert(int number) {
    Random random = new Random(seed + 1 + number);
    return new Expert(matrix(random, inner * hidden), matrix(random, hidden * inner));
  }

  /** The router's matrix, [experts, hidden]. */
  float[] router() {
    return matrix(new Random(seed), experts * hidden);
  }

  private float[] matrix(Random random, int size) {
    float[] values = new float[size];
    float scale = (float) (1 / Math.sqrt(hidden));
    for (int i = 0; i < size; i++) {
      values[i] = (float) random.nextGaussian() * scale;
    }
    return values;
  }

  /** {@code y = down * relu(up * x)} for the token at {@code offset}, in place. */
  void apply(Expert expert, float[] token) {
    float[] between = new float[inner];
    for (int i = 0; i < inner; i++) {
      between[i] = Math.max(0, dot(expert.up, i * hidden, token, hidden));
    }
    for (int i = 0; i < hidden; i++) {
      token[i] = dot(expert.down, i * inner, between, inner);
    }
  }

  /**
   * Chooses the experts of a token: the largest logits, weighted by a softmax over them.
   *
   * @param idx receives topK experts at {@code at}
   * @param weights receives their weights at {@code at}
   */
  void route(float[] router, float[] token, int[] idx, float[] weights, int at) {
    float[] logits = new float[experts];
    for (int e = 0; e < experts; e++) {
      logits[e] = dot(router, e * hidden, token, hidden);
    }
    float sum = 0;
    for (int k = 0; k < topK; k++) {
      int best = 0;
      for (int e = 1; e < experts; e++) {
        best = logits[e] > logits[best] ? e : best;
      }
      idx[at + k] = best;
      weights[at + k] = (float) Math.exp(logits[best]);
      sum += weights[at + k];
      logits[best] = Float.NEGATIVE_INFINITY;
    }
    for (int k = 0; k < topK; k++) {
      weights[at + k] /= sum;
    }
  }

  /** The routing of tokens [T, hidden]. */
  Routing routing(float[] router, float[] x) {
    int[] idx = new int[x.length / hidden * topK];
    float[] weights = new float[idx.length];
    float[] token = new float[hidden];
    for (int t = 0; t < x.length / hidden; t++) {
      System.arraycopy(x, t * hidden, token, 0, hidden);
      route(router, token, idx, weights, t * topK);
    }
    return Routing.of(idx, weights, topK);
  }

  private static float dot(float[] matrix, int from, float[] vector, int length) {
    float sum = 0;
    for (int i = 0; i < length; i++) {
      sum += matrix[from + i] * vector[i];
    }
    return sum;
  }

  /** Tokens of a rank, [tokens, hidden]. */
  float[] tokens(int rank, int tokens) {
    Random random = new Random(~seed - rank);
    float[] x = new float[tokens * hidden];
    for (int i = 0; i < x.length; i++) {
      x[i] = (float) random.nextGaussian();
    }
    return x;
  }
}
