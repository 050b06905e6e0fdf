package org.ep4j.examples.moe;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.Group;
import org.ep4j.moe.ExpertWeights;
import org.ep4j.moe.ForwardPass;
import org.ep4j.moe.MoeGradients;
import org.ep4j.moe.MoeLayer;
import org.ep4j.moe.MoeShape;
import org.ep4j.moe.MoeWeights;
import org.ep4j.moe.RouterConfig;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.Tensor;

/**
 * Trains the experts of a layer to compute the sine of each element, on the ranks of the launcher.
 * The losses have the same bits on any number of ranks that divides the tokens.
 */
public final class TrainExperts {
  private static final MoeShape SHAPE = new MoeShape(32, 48, 0, RouterConfig.softmax(8, 2));
  private static final int TOKENS = 96;
  private static final float RATE = .02f;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private TrainExperts() {}

  /** Prints the loss of each step: {@code TrainExperts STEPS}. */
  public static void main(String... arguments) {
    try (Group group = Group.fromEnvironment()) {
      List<Double> losses = train(group, Integer.parseInt(arguments[0]));
      if (group.rank() == 0) {
        losses.forEach(System.out::println);
      }
    }
  }

  /** The losses of all tokens before each step, the same on all ranks; collective. */
  static List<Double> train(Group group, int steps) {
    ExpertPlacement placement = ExpertPlacement.blocks(SHAPE.router().experts(), group.size());
    float[] router = values(0, SHAPE.router().experts() * SHAPE.hidden(), .5f);
    List<float[][]> experts = new ArrayList<>();
    for (int local = 0; local < placement.localExperts(group.rank()); local++) {
      experts.add(expert(placement.expertAt(group.rank(), local)));
    }
    int tokens = TOKENS / group.size();
    int from = group.rank() * tokens * SHAPE.hidden();
    float[] all = values(-1, TOKENS * SHAPE.hidden(), 1);
    float[] x = Arrays.copyOfRange(all, from, from + tokens * SHAPE.hidden());

    List<Double> losses = new ArrayList<>();
    try (ExpertBuffer buffer =
        ExpertBuffer.open(group, MoeLayer.bufferConfig(SHAPE, group.size(), tokens).build())) {
      for (int step = 0; step < steps; step++) {
        MoeLayer layer = new MoeLayer(buffer, SHAPE, weights(router, experts));
        ForwardPass pass = layer.forwardForTraining(Tensor.of(x, tokens, SHAPE.hidden()));
        float[] errors = pass.y().toFloatArray();
        for (int i = 0; i < errors.length; i++) {
          errors[i] -= (float) StrictMath.sin(x[i]);
        }
        losses.add(loss(group, errors));
        MoeGradients gradients = layer.backward(pass, Tensor.of(errors, tokens, SHAPE.hidden()));
        descend(experts, gradients.experts());
      }
    }
    return losses;
  }

  /** Random matrices w1, w3 and w2. */
  private static float[][] expert(int number) {
    int length = SHAPE.intermediate() * SHAPE.hidden();
    float[] all = values(1 + number, 3 * length, .2f);
    return new float[][] {
      Arrays.copyOfRange(all, 0, length),
      Arrays.copyOfRange(all, length, 2 * length),
      Arrays.copyOfRange(all, 2 * length, 3 * length)
    };
  }

  private static float[] values(long seed, int length, float scale) {
    var random = new Random(seed);
    var values = new float[length];
    for (int i = 0; i < length; i++) {
      values[i] = scale * (random.nextFloat() * 2 - 1);
    }
    return values;
  }

  private static MoeWeights weights(float[] router, List<float[][]> experts) {
    int hidden = SHAPE.hidden();
    int intermediate = SHAPE.intermediate();
    List<ExpertWeights> own =
        experts.stream()
            .map(
                matrices ->
                    new ExpertWeights(
                        Tensor.of(matrices[0], intermediate, hidden),
                        Tensor.of(matrices[1], intermediate, hidden),
                        Tensor.of(matrices[2], hidden, intermediate)))
            .toList();
    Tensor rows = Tensor.of(router, SHAPE.router().experts(), hidden);
    return new MoeWeights(rows, Optional.empty(), own, Optional.empty());
  }

  /** Half the sum of the squares over all ranks, in the order of tokens. */
  private static double loss(Group group, float[] errors) {
    ByteBuffer mine = ByteBuffer.allocate(errors.length / SHAPE.hidden() * Double.BYTES);
    for (int token = 0; token < errors.length; token += SHAPE.hidden()) {
      double squares = 0;
      for (int i = token; i < token + SHAPE.hidden(); i++) {
        squares += (double) errors[i] * errors[i];
      }
      mine.putDouble(squares / 2);
    }
    double sum = 0;
    for (byte[] ofRank : group.allGather(mine.array(), TIMEOUT)) {
      for (ByteBuffer tokens = ByteBuffer.wrap(ofRank); tokens.hasRemaining(); ) {
        sum += tokens.getDouble();
      }
    }
    return sum;
  }

  private static void descend(List<float[][]> experts, List<ExpertWeights> gradients) {
    for (int e = 0; e < experts.size(); e++) {
      ExpertWeights of = gradients.get(e);
      List<Tensor> matrices = List.of(of.w1(), of.w3(), of.w2());
      for (int m = 0; m < matrices.size(); m++) {
        float[] gradient = matrices.get(m).toFloatArray();
        for (int i = 0; i < gradient.length; i++) {
          experts.get(e)[m][i] -= RATE * gradient[i];
        }
      }
    }
  }
}
