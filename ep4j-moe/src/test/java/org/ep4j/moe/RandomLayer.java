package org.ep4j.moe;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * A layer whose weights are random and BF16, so that a GPU and the host have the same ones. Each
 * part has a seed of its own: a rank makes its experts alone.
 */
final class RandomLayer {
  private static final long ROUTER = -1;
  private static final long BIAS = -2;
  private static final long SHARED = -3;

  /** Of weights of experts. */
  private static final float SCALE = .2f;

  /** Of elements before their factors. */
  private static final float FP8_SCALE = 100;

  private final MoeShape shape;
  private final long seed;
  private final int routerColumns;
  private final boolean fp8;

  RandomLayer(MoeShape shape, long seed) {
    this(shape, seed, shape.hidden(), false);
  }

  private RandomLayer(MoeShape shape, long seed, int routerColumns, boolean fp8) {
    this.shape = shape;
    this.seed = seed;
    this.routerColumns = routerColumns;
    this.fp8 = fp8;
  }

  /** The layer with a router of some columns; the others are zero. */
  RandomLayer withRouterOf(int columns) {
    return new RandomLayer(shape, seed, columns, fp8);
  }

  /** A layer whose experts have matrices of FP8 with factors. */
  RandomLayer inFp8() {
    return new RandomLayer(shape, seed, routerColumns, true);
  }

  private SplittableRandom random(long part) {
    return new SplittableRandom(seed * 1_000_003 + part);
  }

  /** Values that BF16 has. */
  static float[] values(SplittableRandom random, int count, float scale) {
    var values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = scale * (float) random.nextGaussian();
    }
    return count == 0 ? values : Tensor.fromFloats(values, DType.BF16, count).toFloatArray();
  }

  private static Tensor matrix(SplittableRandom random, int rows, int columns, float scale) {
    return Tensor.fromFloats(values(random, rows * columns, scale), DType.BF16, rows, columns);
  }

  private ExpertWeights expert(long part, int intermediate) {
    SplittableRandom random = random(part);
    if (fp8) {
      List<Tensor> elements = new ArrayList<>();
      List<Tensor> factors = new ArrayList<>();
      for (int m = 0; m < 3; m++) {
        int rows = m < 2 ? intermediate : shape.hidden();
        int columns = m < 2 ? shape.hidden() : intermediate;
        elements.add(
            Tensor.fromFloats(
                values(random, rows * columns, FP8_SCALE), DType.FP8_E4M3, rows, columns));
        factors.add(factors(random, rows, columns));
      }
      return new ExpertWeights(
          elements.get(0),
          elements.get(1),
          elements.get(2),
          Optional.of(new ExpertWeights.Factors(factors.get(0), factors.get(1), factors.get(2))));
    }
    return new ExpertWeights(
        matrix(random, intermediate, shape.hidden(), SCALE),
        matrix(random, intermediate, shape.hidden(), SCALE),
        matrix(random, shape.hidden(), intermediate, SCALE));
  }

  private static Tensor factors(SplittableRandom random, int rows, int columns) {
    int across = (columns + ExpertWeights.BLOCK - 1) / ExpertWeights.BLOCK;
    int down = (rows + ExpertWeights.BLOCK - 1) / ExpertWeights.BLOCK;
    var factors = new float[down * across];
    for (int i = 0; i < factors.length; i++) {
      factors[i] = SCALE / FP8_SCALE * (float) random.nextDouble(.5, 2);
    }
    return Tensor.of(factors, down, across);
  }

  MoeShape shape() {
    return shape;
  }

  MoeWeights weights(ReplicatedPlacement placement, int rank) {
    int count = shape.router().experts();
    // Logits of about 1: scores near 1 would be equal on one side, and differ on the other.
    float scale = 1 / (float) Math.sqrt(shape.hidden());
    float[] columns = values(random(ROUTER), count * shape.hidden(), scale);
    for (int i = 0; i < columns.length; i++) {
      columns[i] = i % shape.hidden() < routerColumns ? columns[i] : 0;
    }
    Tensor router = Tensor.fromFloats(columns, DType.BF16, count, shape.hidden());
    Optional<Tensor> bias =
        shape.router().scores() == RouterConfig.Scores.SIGMOID
            ? Optional.of(Tensor.of(values(random(BIAS), count, .1f), count))
            : Optional.empty();
    ExpertPlacement physical = placement.placement();
    List<ExpertWeights> own = new ArrayList<>();
    for (int local = 0; local < physical.localExperts(rank); local++) {
      int expert = placement.logicalOf(physical.expertAt(rank, local));
      own.add(expert(expert, shape.intermediate()));
    }
    Optional<ExpertWeights> shared =
        shape.sharedIntermediate() > 0
            ? Optional.of(expert(SHARED, shape.sharedIntermediate()))
            : Optional.empty();
    return new MoeWeights(router, bias, own, shared);
  }
}
