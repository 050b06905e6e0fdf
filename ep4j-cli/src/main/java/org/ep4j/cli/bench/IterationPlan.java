package org.ep4j.cli.bench;

import java.util.function.LongSupplier;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.cli.CommandSpecs;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;

/**
 * Numbers of iterations: set by the user, or derived from a time budget.
 *
 * @param iterations timed iterations, 0 = derived from the budget
 * @param warmup untimed iterations, -1 = derived from the budget
 * @param buffers input sets in rotation
 */
record IterationPlan(int iterations, int warmup, int buffers) {
  private static final int MAX_ITERATIONS = 100_000;

  private static final int TRIAL = 3;

  /** Rounds in a row without progress, after which an operation is warm. */
  private static final int STEADY_ROUNDS = 3;

  /** The time for warming up is exceeded by this factor at most. */
  private static final int LONGEST = 10;

  /** Of the time of the fastest round: noise makes no round this much faster. */
  private static final double FASTER = 0.9;

  /** How often the timed iterations may turn out to be warm-up. */
  private static final int ATTEMPTS = 3;

  /**
   * Limits of the derived numbers.
   *
   * @param fewest minimum of timed iterations
   * @param max maximum of timed iterations
   * @param warmupNanos time for warming up
   * @param nanos time for timed iterations
   */
  record Budget(int fewest, int max, long warmupNanos, long nanos) {}

  /** Iterations of an operation. */
  @FunctionalInterface
  interface Iterations {
    /**
     * Runs and times iterations; discards earlier times.
     *
     * @param first number of the first iteration, which selects the input set
     * @param count number of iterations
     */
    void run(int first, int count);
  }

  /**
   * The plan of the options {@code --iterations} and {@code --warmup}; refuses values out of range.
   *
   * @param iterations null if the option is not given
   * @param warmup null if the option is not given
   */
  static IterationPlan of(
      @Nullable CommandSpec spec,
      @Nullable Integer iterations,
      @Nullable Integer warmup,
      int buffers) {
    range(spec, "--iterations", iterations, 1);
    range(spec, "--warmup", warmup, 0);
    return new IterationPlan(
        iterations == null ? 0 : iterations, warmup == null ? -1 : warmup, buffers);
  }

  private static void range(
      @Nullable CommandSpec spec, String option, @Nullable Integer value, int least) {
    CommandSpecs.checkValue(
        spec,
        value == null || (value >= least && value <= MAX_ITERATIONS),
        option,
        String.valueOf(value),
        least + ".." + MAX_ITERATIONS);
  }

  /**
   * Warms up, then times; all ranks use the same numbers. Code that the JVM still compiles becomes
   * faster, so an operation is warm when it has stopped doing so. If the timed iterations are
   * faster than the warm-up, they belong to it, and are repeated.
   */
  WarmUp spend(Budget budget, CommandAgreement agreement, Iterations operation) {
    return spend(budget, agreement, operation, operation);
  }

  /**
   * The same with more work around the timed iterations.
   *
   * @param untimed runs iterations to warm up
   * @param timed runs and times iterations
   */
  WarmUp spend(Budget budget, CommandAgreement agreement, Iterations untimed, Iterations timed) {
    return spend(budget, agreement, untimed, timed, System::nanoTime);
  }

  /**
   * The same with another clock.
   *
   * @param clock nanoseconds
   */
  WarmUp spend(
      Budget budget,
      CommandAgreement agreement,
      Iterations untimed,
      Iterations timed,
      LongSupplier clock) {
    Spending spending = new Spending(budget, agreement, untimed, timed, clock);
    if (warmup >= 0) {
      untimed.run(0, warmup);
      spending.done = warmup;
    } else {
      spending.untilSteady();
    }
    int count = iterations;
    if (count == 0) {
      long each = warmup >= 0 ? spending.nanosEach(untimed, TRIAL) : spending.latest;
      count = (int) Math.clamp(budget.nanos / each, (long) budget.fewest, (long) budget.max);
    }
    if (warmup >= 0) {
      timed.run(spending.done, count);
      return new WarmUp(spending.done, null);
    }
    return spending.timed(count);
  }

  /** The iterations of an operation so far. */
  private static final class Spending {
    final Budget budget;
    final CommandAgreement agreement;
    final Iterations untimed;
    final Iterations timed;
    final LongSupplier clock;
    int done;

    /** Nanoseconds of an iteration: in the fastest round, and in the latest. */
    long fastest = Long.MAX_VALUE;

    long latest;
    boolean steady;

    Spending(
        Budget budget,
        CommandAgreement agreement,
        Iterations untimed,
        Iterations timed,
        LongSupplier clock) {
      this.clock = clock;
      this.budget = budget;
      this.agreement = agreement;
      this.untimed = untimed;
      this.timed = timed;
    }

    /** Runs rounds until several in a row are not faster than those before. */
    void untilSteady() {
      long spent = 0;
      int steadyRounds = 0;
      latest = nanosEach(untimed, TRIAL);
      fastest = latest;
      while (steadyRounds < STEADY_ROUNDS && spent < LONGEST * budget.warmupNanos) {
        int round =
            (int) Math.clamp(budget.warmupNanos / STEADY_ROUNDS / latest, 1L, (long) budget.max);
        latest = nanosEach(untimed, round);
        spent += latest * round;
        steadyRounds = isFaster(latest) ? 0 : steadyRounds + 1;
        fastest = Math.min(fastest, latest);
      }
      steady = steadyRounds == STEADY_ROUNDS;
    }

    /** Times; repeats what turns out to be warm-up. */
    WarmUp timed(int count) {
      for (int attempt = 1; ; attempt++) {
        int before = done;
        long each = nanosEach(timed, count);
        boolean faster = isFaster(each);
        fastest = Math.min(fastest, each);
        if (!faster) {
          return new WarmUp(before, steady || attempt > 1);
        }
        if (attempt == ATTEMPTS) {
          return new WarmUp(before, false);
        }
      }
    }

    private boolean isFaster(long nanos) {
      return nanos < FASTER * fastest;
    }

    /** Nanoseconds of an iteration on the slowest rank. */
    long nanosEach(Iterations operation, int count) {
      long start = clock.getAsLong();
      operation.run(done, count);
      done += count;
      return Math.max(1, agreement.max((clock.getAsLong() - start) / count));
    }
  }
}
