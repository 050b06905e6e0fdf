package org.ep4j.moe;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A layer whose weights are random and BF16, so that a GPU and the host have the same ones. */
final class RandomLayer {
  private final MoeShape shape;
  private final Random random;
  private final Tensor router;
  private final Optional<Tensor> bias;
  private final List<ExpertWeights> experts = new ArrayList<>();
  private final Optional<ExpertWeights> shared;

  RandomLayer(MoeShape shape, long seed) {
    this.shape = shape;
    random = new Random(seed);
    int count = shape.router().experts();
    router = matrix(count, shape.hidden());
    bias =
        shape.router().scores() == RouterConfig.Scores.SIGMOID
            ? Optional.of(Tensor.of(values(count, .1f), count))
            : Optional.empty();
    for (int e = 0; e < count; e++) {
      experts.add(expert(shape.intermediate()));
    }
    shared =
        shape.sharedIntermediate() > 0
            ? Optional.of(expert(shape.sharedIntermediate()))
            : Optional.empty();
  }

  private ExpertWeights expert(int intermediate) {
    return new ExpertWeights(
        matrix(intermediate, shape.hidden()),
        matrix(intermediate, shape.hidden()),
        matrix(shape.hidden(), intermediate));
  }

  private Tensor matrix(int rows, int columns) {
    return Tensor.fromFloats(values(rows * columns, .2f), DType.BF16, rows, columns);
  }

  private float[] values(int count, float scale) {
    var values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = scale * (float) random.nextGaussian();
    }
    return values;
  }

  MoeShape shape() {
    return shape;
  }

  /** Values of tokens or of their gradients, as BF16 has them. */
  float[] tokens(int count) {
    return Tensor.fromFloats(values(count * shape.hidden(), 1), DType.BF16, count, shape.hidden())
        .toFloatArray();
  }

  MoeWeights weights(ReplicatedPlacement placement, int rank) {
    ExpertPlacement physical = placement.placement();
    List<ExpertWeights> own = new ArrayList<>();
    for (int local = 0; local < physical.localExperts(rank); local++) {
      own.add(experts.get(placement.logicalOf(physical.expertAt(rank, local))));
    }
    return new MoeWeights(router, bias, own, shared);
  }
}
