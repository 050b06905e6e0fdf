package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BalancingTest {
  @ParameterizedTest
  @ValueSource(ints = {3, 4})
  void ranksGetSimilarLoadAndTheOutputStays(int ranks) {
    List<Balancing.Report> reports = ThreadRanks.call(ranks, Balancing::run);

    for (int rank = 0; rank < ranks; rank++) {
      Balancing.Report report = reports.get(rank);
      assertThat(report.after()).isGreaterThan(report.before() + .05).isGreaterThan(.85);
      assertThat(report.moved()).isPositive();
      assertThat(report.last()).isEqualTo(report.first());
      assertThat(report.last()).containsExactly(dense(rank), within(1e-4f));
      assertThat(report)
          .asString()
          .contains("balanced %.2f".formatted(report.after()), "slots move");
    }
  }

  /** The same sums without ranks. */
  private static float[] dense(int rank) {
    ToyModel model = Balancing.MODEL;
    float[] x = model.tokens(rank, Balancing.TOKENS);
    Routing routing = Balancing.routing(rank);
    float[] weights = Objects.requireNonNull(routing.topkWeights()).toFloatArray();
    float[] y = new float[x.length];
    for (int choice = 0; choice < weights.length; choice++) {
      int from = choice / model.topK() * model.hidden();
      float[] token = Arrays.copyOfRange(x, from, from + model.hidden());
      model.apply(model.expert(routing.topkIdx().getInt(choice)), token);
      for (int i = 0; i < token.length; i++) {
        y[from + i] += weights[choice] * token[i];
      }
    }
    return y;
  }
}
