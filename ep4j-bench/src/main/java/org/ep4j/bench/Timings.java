package org.ep4j.bench;

import java.util.Arrays;

/**
 * Durations of the iterations of an operation in microseconds, each the maximum of the ranks.
 *
 * @param micros in the order of the iterations
 */
public record Timings(double[] micros) {
  /** Checks that the array is not empty. */
  public Timings {
    if (micros.length == 0) {
      throw new IllegalArgumentException("timings of no iteration");
    }
  }

  /** The maximum of the ranks in each iteration. */
  public static Timings longestOf(long[][] nanosOfRanks) {
    double[] longest = new double[nanosOfRanks[0].length];
    for (long[] nanos : nanosOfRanks) {
      for (int i = 0; i < longest.length; i++) {
        longest[i] = Math.max(longest[i], nanos[i] / 1e3);
      }
    }
    return new Timings(longest);
  }

  /** The median; for an even number of iterations the mean of the middle two. */
  public double median() {
    double[] sorted = sorted();
    int half = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  /** The shortest duration that at least 99 of 100 do not exceed; NaN of fewer than 100. */
  public double p99() {
    return percentile(0.99, 100);
  }

  /** The same for 999 of 1000; NaN of fewer than 1000. */
  public double p999() {
    return percentile(0.999, 1000);
  }

  private double percentile(double share, int fewest) {
    return micros.length < fewest ? Double.NaN : quantile(share);
  }

  /**
   * The shortest duration that at least this share of all do not exceed.
   *
   * @param share above 0, at most 1
   */
  public double quantile(double share) {
    return sorted()[(int) Math.ceil(share * micros.length) - 1];
  }

  public double min() {
    return sorted()[0];
  }

  public double max() {
    return sorted()[micros.length - 1];
  }

  private double[] sorted() {
    double[] sorted = micros.clone();
    Arrays.sort(sorted);
    return sorted;
  }
}
