package org.ep4j.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * The operations sleep: they are slow for a number of iterations, as code is before it is compiled.
 */
@Timeout(60)
class IterationPlanTest {
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(5, 20, TimeUnit.MILLISECONDS.toNanos(60), 100_000_000L);

  private final List<Integer> runs = new ArrayList<>();
  private int iteration;

  /** An operation that takes 20 ms, and 1 ms from iteration {@code slow} on. */
  private IterationPlan.Iterations slowFor(int slow) {
    return (_, count) -> {
      runs.add(count);
      for (int i = 0; i < count; i++) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(iteration < slow ? 20 : 1);
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
          LockSupport.parkNanos(left);
        }
        iteration++;
      }
    };
  }

  private WarmUp spend(IterationPlan plan, int slow) {
    try (Group group = Group.inProcess(1).getFirst()) {
      return plan.spend(BUDGET, new CommandAgreement(group), slowFor(slow));
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
          LockSupport.parkNanos(((long) (millis[0] * 1e6)) * count);
          millis[0] *= 0.85;
        };
    try (Group group = Group.inProcess(1).getFirst()) {
      IterationPlan plan = new IterationPlan(1, -1, 1);
      assertThat(plan.spend(BUDGET, new CommandAgreement(group), hastening).steady()).isFalse();
    }
  }
}
