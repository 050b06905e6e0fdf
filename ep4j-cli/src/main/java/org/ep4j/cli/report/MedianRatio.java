package org.ep4j.cli.report;

import java.util.Arrays;
import java.util.Random;
import org.ep4j.bench.Timings;

/**
 * The ratio of the medians of two series of durations, with a 95 % confidence interval.
 *
 * <p>The interval is that of a bootstrap: both series are drawn again many times, and the ratio of
 * each drawing is noted. Iterations of a run follow each other, and neighbours resemble each other
 * (clock rates, other programs), so whole blocks of neighbours are drawn. Single draws would give
 * an interval that is too narrow.
 *
 * @param ratio median of the second series over that of the first
 * @param low lower end of the interval
 * @param high upper end of the interval
 */
record MedianRatio(double ratio, double low, double high) {
  /** Fewer iterations say too little about a median. */
  static final int FEWEST = 10;

  private static final int DRAWINGS = 2000;
  private static final double TAIL = 0.025;
  private static final long SEED = 0x5EED;

  /**
   * The ratio of the medians of two series, each of {@link #FEWEST} or more positive numbers. Equal
   * series give equal results.
   */
  static MedianRatio of(double[] first, double[] second) {
    Random random = new Random(SEED);
    double[] ofFirst = medians(first, random);
    double[] ofSecond = medians(second, random);
    double[] ratios = new double[DRAWINGS];
    for (int i = 0; i < DRAWINGS; i++) {
      ratios[i] = ofSecond[i] / ofFirst[i];
    }
    Arrays.sort(ratios);
    int tail = (int) (TAIL * DRAWINGS);
    return new MedianRatio(
        new Timings(second).median() / new Timings(first).median(),
        ratios[tail],
        ratios[DRAWINGS - 1 - tail]);
  }

  /** The medians of all drawings of a series. Only ranks are drawn, so nothing is sorted again. */
  private static double[] medians(double[] values, Random random) {
    int n = values.length;
    int block = blockLength(values);
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    int[] ranks = new int[n];
    for (int i = 0; i < n; i++) {
      ranks[i] = Arrays.binarySearch(sorted, values[i]);
    }
    double[] medians = new double[DRAWINGS];
    int[] counts = new int[n];
    for (int drawing = 0; drawing < DRAWINGS; drawing++) {
      Arrays.fill(counts, 0);
      for (int drawn = 0; drawn < n; ) {
        int at = random.nextInt(n);
        for (int i = 0; i < block && drawn < n; i++, drawn++) {
          counts[ranks[at]]++;
          at = at + 1 == n ? 0 : at + 1;
        }
      }
      medians[drawing] = (order(sorted, counts, (n - 1) / 2) + order(sorted, counts, n / 2)) / 2;
    }
    return medians;
  }

  /** The element at {@code index} of the drawn values in their order. */
  private static double order(double[] sorted, int[] counts, int index) {
    int seen = 0;
    for (int rank = 0; ; rank++) {
      seen += counts[rank];
      if (seen > index) {
        return sorted[rank];
      }
    }
  }

  /**
   * Length of the blocks: the cube root of the number of iterations, or twice the distance at which
   * neighbours no longer agree about being above or below the median.
   */
  static int blockLength(double[] values) {
    int n = values.length;
    double median = new Timings(values).median();
    int least = (int) Math.ceil(Math.cbrt(n));
    int longest = Math.max(least, n / 4);
    double noise = 2 / Math.sqrt(n);
    for (int lag = 1; 2 * lag <= longest; lag++) {
      int agreement = 0;
      for (int i = 0; i + lag < n; i++) {
        agreement += side(values[i], median) * side(values[i + lag], median);
      }
      if (agreement < noise * n) {
        return Math.max(least, 2 * lag);
      }
    }
    return longest;
  }

  private static int side(double value, double median) {
    return Double.compare(value, median);
  }
}
