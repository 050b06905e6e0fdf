package org.ep4j.cli.bench;

import java.util.Optional;
import java.util.function.IntFunction;
import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;
import org.ep4j.moe.ExpertWeights;
import org.ep4j.moe.MoeShape;
import org.ep4j.tensor.Tensor;

/**
 * A layer with normalized softmax scores in plain arithmetic of double precision, token by token.
 *
 * @param experts makes the weights of an expert
 * @param shared weights of the shared expert
 */
record PlainLayer(
    MoeShape shape,
    Tensor router,
    IntFunction<ExpertWeights> experts,
    Optional<ExpertWeights> shared) {
  /** The result of a token. */
  double[] forward(double[] x) {
    int count = shape.router().experts();
    float[] matrix = router.toFloatArray();
    double[] logits = IntStream.range(0, count).mapToDouble(e -> dot(matrix, e, x)).toArray();
    int[] chosen =
        IntStream.range(0, count)
            .boxed()
            .sorted((a, b) -> Double.compare(logits[b], logits[a]))
            .limit(shape.router().topK())
            .mapToInt(e -> e)
            .toArray();
    double sum = 0;
    for (int e : chosen) {
      sum += Math.exp(logits[e]);
    }
    var y = new double[x.length];
    for (int e : chosen) {
      add(y, Math.exp(logits[e]) / sum, experts.apply(e), x);
    }
    shared.ifPresent(expert -> add(y, 1, expert, x));
    return y;
  }

  private static void add(double[] y, double weight, ExpertWeights expert, double[] x) {
    float[] w1 = expert.w1().toFloatArray();
    float[] w3 = expert.w3().toFloatArray();
    float[] w2 = expert.w2().toFloatArray();
    double[] inner =
        rows(
            expert.w1(),
            i -> {
              double swished = dot(w1, i, x);
              return swished / (1 + Math.exp(-swished)) * dot(w3, i, x);
            });
    double[] outer = rows(expert.w2(), h -> dot(w2, h, inner));
    for (int h = 0; h < y.length; h++) {
      y[h] += weight * outer[h];
    }
  }

  private static double[] rows(Tensor matrix, IntToDoubleFunction of) {
    return IntStream.range(0, Math.toIntExact(matrix.size(0))).parallel().mapToDouble(of).toArray();
  }

  private static double dot(float[] matrix, int row, double[] x) {
    double sum = 0;
    for (int h = 0; h < x.length; h++) {
      sum += matrix[row * x.length + h] * x[h];
    }
    return sum;
  }
}
