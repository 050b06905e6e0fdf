package org.ep4j.moe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.IntStream;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.Tensor;

/** A layer with random weights, and its results in plain arithmetic of double precision. */
final class PlainMoe {
  final MoeShape shape;
  final float[] router;
  final float[] bias;
  final List<float[][]> experts = new ArrayList<>();
  final float[][] shared;

  PlainMoe(MoeShape shape, long seed) {
    this.shape = shape;
    var random = new Random(seed);
    int count = shape.router().experts();
    router = values(random, count * shape.hidden(), 1);
    bias = values(random, count, .2f);
    for (int e = 0; e < count; e++) {
      experts.add(matrices(random, shape.intermediate()));
    }
    shared = matrices(random, shape.sharedIntermediate());
  }

  private float[][] matrices(Random random, int intermediate) {
    var matrices = new float[3][];
    for (int m = 0; m < 3; m++) {
      matrices[m] = values(random, intermediate * shape.hidden(), 1);
    }
    return matrices;
  }

  static float[] values(Random random, int length, float scale) {
    var values = new float[length];
    for (int i = 0; i < length; i++) {
      values[i] = scale * (float) random.nextGaussian() / 3;
    }
    return values;
  }

  private boolean hasBias() {
    return shape.router().scores() == RouterConfig.Scores.SIGMOID;
  }

  /** The weights of a rank. */
  MoeWeights weights(ExpertPlacement placement, int rank) {
    return weights(ReplicatedPlacement.of(placement), rank);
  }

  MoeWeights weights(ReplicatedPlacement placement, int rank) {
    ExpertPlacement physical = placement.placement();
    List<ExpertWeights> own = new ArrayList<>();
    for (int local = 0; local < physical.localExperts(rank); local++) {
      int expert = placement.logicalOf(physical.expertAt(rank, local));
      own.add(weights(experts.get(expert), shape.intermediate()));
    }
    return new MoeWeights(
        Tensor.of(router, shape.router().experts(), shape.hidden()),
        hasBias() ? Optional.of(Tensor.of(bias, bias.length)) : Optional.empty(),
        own,
        shape.sharedIntermediate() > 0
            ? Optional.of(weights(shared, shape.sharedIntermediate()))
            : Optional.empty());
  }

  private ExpertWeights weights(float[][] matrices, int intermediate) {
    return new ExpertWeights(
        Tensor.of(matrices[0], intermediate, shape.hidden()),
        Tensor.of(matrices[1], intermediate, shape.hidden()),
        Tensor.of(matrices[2], shape.hidden(), intermediate));
  }

  /** The result of a token. */
  double[] forward(float[] x) {
    RouterConfig config = shape.router();
    double[] scores = scores(x);
    List<Integer> chosen = choices(scores);
    double sum = chosen.stream().mapToDouble(e -> scores[e]).sum();
    var y = new double[x.length];
    for (int e : chosen) {
      double weight = scores[e] / (config.normalized() ? sum : 1) * config.scale();
      add(y, weight, experts.get(e), shape.intermediate(), x);
    }
    add(y, 1, shared, shape.sharedIntermediate(), x);
    return y;
  }

  private double[] scores(float[] x) {
    int count = shape.router().experts();
    var scores = new double[count];
    for (int e = 0; e < count; e++) {
      scores[e] = dot(router, e * x.length, x);
    }
    if (hasBias()) {
      return IntStream.range(0, count).mapToDouble(e -> 1 / (1 + Math.exp(-scores[e]))).toArray();
    }
    double sum = 0;
    for (double score : scores) {
      sum += Math.exp(score);
    }
    for (int e = 0; e < count; e++) {
      scores[e] = Math.exp(scores[e]) / sum;
    }
    return scores;
  }

  private List<Integer> choices(double[] scores) {
    RouterConfig config = shape.router();
    int each = scores.length / config.groups();
    double[] wanted =
        IntStream.range(0, scores.length)
            .mapToDouble(e -> scores[e] + (hasBias() ? bias[e] : 0))
            .toArray();
    Comparator<Integer> bestGroup =
        Comparator.comparingDouble(
            g ->
                -IntStream.range(g * each, (g + 1) * each)
                    .mapToObj(e -> wanted[e])
                    .sorted(Comparator.reverseOrder())
                    .limit(hasBias() ? 2 : 1)
                    .mapToDouble(v -> v)
                    .sum());
    return IntStream.range(0, config.groups())
        .boxed()
        .sorted(bestGroup)
        .limit(config.topGroups())
        .flatMap(g -> IntStream.range(g * each, (g + 1) * each).boxed())
        .sorted(Comparator.comparingDouble(e -> -wanted[e]))
        .limit(config.topK())
        .toList();
  }

  private static void add(
      double[] y, double weight, float[][] matrices, int intermediate, float[] x) {
    for (int i = 0; i < intermediate; i++) {
      double swished = dot(matrices[0], i * x.length, x);
      double inner = swished / (1 + Math.exp(-swished)) * dot(matrices[1], i * x.length, x);
      for (int h = 0; h < x.length; h++) {
        y[h] += weight * inner * matrices[2][h * intermediate + i];
      }
    }
  }

  private static double dot(float[] matrix, int from, float[] x) {
    double sum = 0;
    for (int h = 0; h < x.length; h++) {
      sum += (double) matrix[from + h] * x[h];
    }
    return sum;
  }
}
