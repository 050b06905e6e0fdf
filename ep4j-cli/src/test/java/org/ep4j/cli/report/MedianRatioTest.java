package org.ep4j.cli.report;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What intervals promise, counted over many drawn runs. */
class MedianRatioTest {
  private static final int TRIALS = Boolean.getBoolean("ep4j.full") ? 300 : 100;
  private static final long SEED = Long.getLong("ep4j.seed", 1);

  /** Neighbours that resemble each other are what a real machine gives. */
  @ParameterizedTest
  @CsvSource({"100, 0, 0.11", "40, 0, 0.11", "10, 0, 0.17", "150, 0.7, 0.17"})
  void equalProgramsSeldomSeemToDiffer(int iterations, double likeness, double share) {
    Random random = new Random(SEED);
    int wrong = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
      MedianRatio found =
          MedianRatio.of(
              durations(random, iterations, likeness, 100),
              durations(random, iterations, likeness, 100));
      wrong += found.low() > 1 || found.high() < 1 ? 1 : 0;
    }
    assertThat(wrong / (double) TRIALS).as("seed %d", SEED).isLessThanOrEqualTo(share);
  }

  @Test
  void aDifferenceOfAFourthIsFound() {
    Random random = new Random(SEED);
    int found = 0;
    int covered = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
      MedianRatio ratio =
          MedianRatio.of(durations(random, 100, 0, 100), durations(random, 100, 0, 125));
      found += ratio.low() > 1 ? 1 : 0;
      covered += ratio.low() <= 1.25 && ratio.high() >= 1.25 ? 1 : 0;
    }
    assertThat(found / (double) TRIALS).as("seed %d", SEED).isGreaterThan(0.95);
    assertThat(covered / (double) TRIALS).as("seed %d", SEED).isGreaterThan(0.9);
  }

  @Test
  void neighboursThatResembleEachOtherMakeLongBlocks() {
    Random random = new Random(SEED);

    assertThat(MedianRatio.blockLength(durations(random, 1000, 0, 100))).isLessThan(20);
    assertThat(MedianRatio.blockLength(durations(random, 1000, 0.95, 100))).isGreaterThan(30);
  }

  @Test
  void oneDurationOverAndOverHasAnIntervalOfNoWidth() {
    double[] same = new double[MedianRatio.FEWEST];
    Arrays.fill(same, 3);

    assertThat(MedianRatio.of(same, same)).isEqualTo(new MedianRatio(1, 1, 1));
  }

  @Test
  void theSameSeriesGiveTheSameInterval() {
    double[] first = durations(new Random(SEED), 50, 0, 100);
    double[] second = durations(new Random(SEED + 1), 50, 0, 100);

    assertThat(MedianRatio.of(first, second)).isEqualTo(MedianRatio.of(first, second));
  }

  /** Durations with a long tail; each resembles the one before by {@code likeness}. */
  private static double[] durations(Random random, int n, double likeness, double median) {
    double[] durations = new double[n];
    double state = random.nextGaussian();
    for (int i = 0; i < n; i++) {
      durations[i] = median * Math.exp(0.3 * state);
      state = likeness * state + Math.sqrt(1 - likeness * likeness) * random.nextGaussian();
    }
    return durations;
  }
}
