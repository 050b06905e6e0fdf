package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.assertj.core.data.Offset;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TrainingStepTest {
  private static final int HIDDEN = 16;
  private static final int EXPERTS = 24;
  private static final int TOP_K = 3;
  private static final int TOKENS = 9;
  private static final int STEPS = 20;
  private static final Offset<Float> TOLERANCE = within(1e-4f);

  private final float[] scales = values(1, EXPERTS * HIDDEN);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 8})
  void gradientsAreThoseOfOneMachine(int ranks) {
    List<TrainingStep.Result> results =
        ThreadRanks.call(
            ranks,
            group -> {
              int local = EXPERTS / ranks * HIDDEN;
              int first = group.rank() * local;
              TrainingStep step =
                  new TrainingStep(Arrays.copyOfRange(scales, first, first + local), HIDDEN);
              try (ExpertBuffer buffer = TrainingStep.open(group, EXPERTS, HIDDEN, TOP_K, TOKENS)) {
                // Twice: no state of a step may remain in the next.
                step.run(buffer, values(2, TOKENS * HIDDEN), routing(group.rank() + 1));
                return step.run(buffer, tokens(group.rank()), routing(group.rank()));
              }
            });

    float[] gradOfScales = new float[scales.length];
    for (int rank = 0; rank < ranks; rank++) {
      TrainingStep.Result expected = dense(rank, gradOfScales);
      TrainingStep.Result result = results.get(rank);
      assertThat(result.y()).containsExactly(expected.y(), TOLERANCE);
      assertThat(result.gradOfX()).containsExactly(expected.gradOfX(), TOLERANCE);
      assertThat(result.gradOfWeights()).containsExactly(expected.gradOfWeights(), TOLERANCE);
    }
    for (int rank = 0; rank < ranks; rank++) {
      int local = scales.length / ranks;
      assertThat(results.get(rank).gradOfScales())
          .containsExactly(
              Arrays.copyOfRange(gradOfScales, rank * local, (rank + 1) * local), TOLERANCE);
    }
  }

  @Test
  void lossesHaveTheSameBitsOnAnyNumberOfRanks() {
    List<Double> ofOne = losses(1);

    assertThat(ofOne.getLast()).isLessThan(ofOne.getFirst());
    for (int ranks : List.of(2, 3, 4, 8)) {
      assertThat(losses(ranks)).as("%d ranks", ranks).isEqualTo(ofOne);
    }
  }

  /** Losses of some steps on the same tokens, divided among the ranks. */
  private List<Double> losses(int ranks) {
    int tokens = 4 * TOKENS;
    float[] x = values(2, tokens * HIDDEN);
    int[] idx = experts(3, tokens);
    float[] weights = values(4, tokens * TOP_K);
    return ThreadRanks.call(
            ranks,
            group -> {
              int rank = group.rank();
              int from = tokens * rank / ranks;
              int to = tokens * (rank + 1) / ranks;
              int local = EXPERTS / ranks * HIDDEN;
              TrainingStep step =
                  new TrainingStep(
                      Arrays.copyOfRange(scales, rank * local, (rank + 1) * local), HIDDEN);
              Routing routing =
                  Routing.of(
                      Arrays.copyOfRange(idx, from * TOP_K, to * TOP_K),
                      Arrays.copyOfRange(weights, from * TOP_K, to * TOP_K),
                      TOP_K);
              float[] mine = Arrays.copyOfRange(x, from * HIDDEN, to * HIDDEN);
              List<Double> losses = new ArrayList<>();
              try (ExpertBuffer buffer = TrainingStep.open(group, EXPERTS, HIDDEN, TOP_K, tokens)) {
                for (int n = 0; n < STEPS; n++) {
                  losses.add(step.loss(group, step.run(buffer, mine, routing).y()));
                  step.descend(0.5f);
                }
              }
              return losses;
            })
        .getFirst();
  }

  /** The same sums, one token after the other. */
  private TrainingStep.Result dense(int rank, float[] gradOfScales) {
    float[] x = tokens(rank);
    int[] idx = experts(rank);
    float[] weights = weights(rank);
    float[] y = new float[x.length];
    float[] gradOfX = new float[x.length];
    float[] gradOfWeights = new float[weights.length];
    for (int choice = 0; choice < idx.length; choice++) {
      for (int i = 0; i < HIDDEN; i++) {
        int at = choice / TOP_K * HIDDEN + i;
        y[at] += weights[choice] * scales[idx[choice] * HIDDEN + i] * x[at];
      }
    }
    for (int choice = 0; choice < idx.length; choice++) {
      for (int i = 0; i < HIDDEN; i++) {
        int at = choice / TOP_K * HIDDEN + i;
        int of = idx[choice] * HIDDEN + i;
        gradOfX[at] += y[at] * weights[choice] * scales[of];
        gradOfWeights[choice] += y[at] * scales[of] * x[at];
        gradOfScales[of] += y[at] * weights[choice] * x[at];
      }
    }
    return new TrainingStep.Result(y, gradOfX, gradOfWeights, gradOfScales);
  }

  private static Routing routing(int rank) {
    return Routing.of(experts(rank), weights(rank), TOP_K);
  }

  private static float[] tokens(int rank) {
    return values(10 + rank, TOKENS * HIDDEN);
  }

  private static float[] weights(int rank) {
    return values(20 + rank, TOKENS * TOP_K);
  }

  /** Different experts for each token. */
  private static int[] experts(int rank) {
    return experts(30 + rank, TOKENS);
  }

  private static int[] experts(long seed, int tokens) {
    Random random = new Random(seed);
    int[] idx = new int[tokens * TOP_K];
    for (int t = 0; t < tokens; t++) {
      int first = random.nextInt(EXPERTS);
      for (int k = 0; k < TOP_K; k++) {
        idx[t * TOP_K + k] = (first + k * 5) % EXPERTS;
      }
    }
    return idx;
  }

  private static float[] values(long seed, int count) {
    Random random = new Random(seed);
    float[] values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = random.nextFloat() - 0.5f;
    }
    return values;
  }
}
