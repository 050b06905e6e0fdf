package org.ep4j.cli.bench;

import org.ep4j.bench.CommandAgreement;

/**
 * Numbers of iterations: set by the user, or derived from a time budget.
 *
 * @param iterations timed iterations, 0 = derived from the budget
 * @param warmup untimed iterations, -1 = derived from the budget
 * @param buffers input sets in rotation
 */
record IterationPlan(int iterations, int warmup, int buffers) {
  private static final int TRIAL = 3;

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

  /** Warms up, then times; all ranks use the same numbers. */
  void spend(Budget budget, CommandAgreement agreement, Iterations operation) {
    int done = 0;
    if (warmup >= 0) {
      operation.run(0, warmup);
      done = warmup;
    } else {
      long trial = nanosEach(agreement, operation, 0, TRIAL);
      int more = (int) Math.min(budget.max, budget.warmupNanos / trial);
      operation.run(TRIAL, more);
      done = TRIAL + more;
    }
    int count = iterations;
    if (count == 0) {
      long each = nanosEach(agreement, operation, done, TRIAL);
      done += TRIAL;
      count = (int) Math.clamp(budget.nanos / each, (long) budget.fewest, (long) budget.max);
    }
    operation.run(done, count);
  }

  /** Nanoseconds of an iteration on the slowest rank. */
  private static long nanosEach(
      CommandAgreement agreement, Iterations operation, int first, int count) {
    long start = System.nanoTime();
    operation.run(first, count);
    return Math.max(1, agreement.max((System.nanoTime() - start) / count));
  }
}
