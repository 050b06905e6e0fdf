package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * The operations advance the clock: they are slow for a number of iterations, as code is before it
 * is compiled.
 */
@Timeout(60)
class IterationPlanTest {
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(5, 20, TimeUnit.MILLISECONDS.toNanos(60), 100_000_000L);

  private final List<Integer> runs = new ArrayList<>();
  private int iteration;

  /** Nanoseconds. */
  private long now;

  /** An operation that takes 20 ms, and 1 ms from iteration {@code slow} on. */
  private IterationPlan.Iterations slowFor(int slow) {
    return (_, count) -> {
      runs.add(count);
      for (int i = 0; i < count; i++) {
        now += TimeUnit.MILLISECONDS.toNanos(iteration < slow ? 20 : 1);
        iteration++;
      }
    };
  }

  private WarmUp spend(IterationPlan plan, int slow) {
    return spend(plan, slowFor(slow));
  }

  private WarmUp spend(IterationPlan plan, IterationPlan.Iterations operation) {
    try (Group group = Group.inProcess(1).getFirst()) {
      return plan.spend(BUDGET, new CommandAgreement(group), operation, operation, () -> now);
    }
  }

  @Test
  void warmingUpLastsUntilTheOperationStopsBecomingFaster() {
    WarmUp warm = spend(new IterationPlan(0, -1, 1), 5);

    assertThat(warm.steady()).isTrue();
    assertThat(iteration - runs.getLast()).isEqualTo(warm.iterations()).isGreaterThanOrEqualTo(5);
  }

  @Test
  void timedIterationsThatAreStillWarmUpAreRepeated() {
    // The slow iterations outlast the rounds, which see no progress.
    WarmUp warm = spend(new IterationPlan(5, -1, 1), 9);

    assertThat(warm.iterations()).isGreaterThanOrEqualTo(9);
    assertThat(runs.getLast()).isEqualTo(5);
    assertThat(warm.steady()).isTrue();
  }

  @Test
  void numbersOfTheUserAreKept() {
    WarmUp warm = spend(new IterationPlan(4, 2, 1), 100);

    assertThat(runs).containsExactly(2, 4);
    assertThat(warm).isEqualTo(new WarmUp(2, null));
  }

  @Test
  void anOperationThatKeepsBecomingFasterIsNotSteady() {
    double[] millis = {200};
    IterationPlan.Iterations hastening =
        (_, count) -> {
          runs.add(count);
          now += count * (long) (millis[0] * 1e6);
          millis[0] *= 0.85;
        };
    assertThat(spend(new IterationPlan(1, -1, 1), hastening).steady()).isFalse();
  }
}
