package org.ep4j.observe;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.ep4j.observe.Verdict.Cause;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Verdicts on computed operations: every rank computes for a while, sends its part to all, and
 * waits for all parts. Times of computing and of links vary from operation to operation.
 */
class VerdictTest {
  private static final double COMPUTE = 1_000_000;
  private static final double LINK = 50_000;

  /** Standard deviation of the logarithm of both times. */
  private static final double NOISE = 0.15;

  /** Operations that something else delays, by several times their length. */
  private static final double HICCUPS = 0.01;

  private record Job(int ranks, Cause cause, int victim, int sender, double delay, long seed) {
    static Job of(long seed, Cause cause) {
      SplittableRandom random = new SplittableRandom(seed);
      int ranks = 3 + random.nextInt(14);
      int victim = random.nextInt(ranks);
      int sender = (victim + 1 + random.nextInt(ranks - 1)) % ranks;
      // A late receiver finds the next parts there: a slow link costs half of its delay.
      double delay = COMPUTE * random.nextDouble(0.5, 3) * (cause == Cause.SLOW_LINK ? 2 : 1);
      return new Job(ranks, cause, victim, sender, delay, seed);
    }

    boolean right(Verdict verdict) {
      return verdict.cause() == cause
          && (cause == Cause.NONE || verdict.rank() == victim)
          && (cause != Cause.SLOW_LINK || verdict.sender() == sender);
    }
  }

  @ParameterizedTest
  @EnumSource(names = "TOO_EARLY", mode = EnumSource.Mode.EXCLUDE)
  void ofAThousandJobsNinetyNineInAHundredAreJudgedRight(Cause cause) {
    List<String> wrong = new ArrayList<>();
    for (long seed = 0; seed < 250; seed++) {
      Job job = Job.of(seed, cause);
      Verdict verdict = WorldObservation.of(run(job, ObservationLog.KEPT)).verdict();
      if (!job.right(verdict)) {
        wrong.add(job + ": " + verdict);
      }
    }
    assertThat(wrong).hasSizeLessThanOrEqualTo(2);
  }

  @Test
  void fewWindowsAreTooEarly() {
    Job job = Job.of(1, Cause.SLOW_RANK);
    int enough = WorldObservation.MIN_WINDOWS;
    assertThat(WorldObservation.of(run(job, enough - 1)).verdict().cause())
        .isEqualTo(Cause.TOO_EARLY);
    assertThat(WorldObservation.of(run(job, enough)).verdict().cause()).isEqualTo(Cause.SLOW_RANK);
  }

  @Test
  void windowsThatARankLacksAreLeftOut() {
    List<RankObservation> all = new ArrayList<>(run(Job.of(1, Cause.SLOW_RANK), 10));
    RankObservation first = all.getFirst();
    all.set(
        0,
        observation(
            first.rank(), first.ranks(), first.windows().subList(4, 10), new int[0], new long[0]));
    WorldObservation seen = WorldObservation.of(all);
    assertThat(seen.operations()).isEqualTo(6 * ObservationLog.WINDOW);
    assertThat(seen.verdict().cause()).isEqualTo(Cause.SLOW_RANK);
  }

  @Test
  void ranksThatDoNotAnswerAreNotJudged() {
    Job job = Job.of(3, Cause.SLOW_RANK);
    List<RankObservation> all = new ArrayList<>(run(job, 10));
    int missing = (job.victim + 1) % job.ranks;
    all.remove(missing);
    WorldObservation seen =
        WorldObservation.decode(all.stream().map(RankObservation::encode).toList());
    assertThat(seen.observed()).doesNotContain(missing).hasSize(job.ranks - 1);
    assertThat(seen.verdict().rank()).isEqualTo(job.victim);
  }

  @Test
  void expertsAndBalancednessCountTokensOfAllRanks() {
    WorldObservation seen =
        WorldObservation.of(
            List.of(
                observation(0, 2, List.of(), new int[] {0, 2}, new long[] {10, 20}),
                observation(1, 2, List.of(), new int[] {1, 3}, new long[] {40, 20})));
    assertThat(seen.tokensOfExperts().values()).containsExactly(10L, 40L, 20L, 20L);
    assertThat(seen.tokensOfRank(1)).isEqualTo(60);
    assertThat(seen.balancedness()).isEqualTo(0.75);
  }

  private static RankObservation observation(
      int rank, int ranks, List<RankObservation.Window> windows, int[] experts, long[] tokens) {
    return RankObservation.of(ranks, windows, experts, tokens, new TimeoutLog(rank));
  }

  private static List<RankObservation> run(Job job, int windows) {
    SplittableRandom random = new SplittableRandom(job.seed * 31);
    int n = job.ranks;
    double[] end = new double[n];
    double[] before = new double[n];
    long[] rows = IntStream.range(0, n).mapToLong(r -> 900 + random.nextInt(200)).toArray();
    if (job.cause == Cause.SKEW) {
      rows[job.victim] *= 3;
    }
    List<List<RankObservation.Window>> ofRank = new ArrayList<>();
    for (int r = 0; r < n; r++) {
      ofRank.add(new ArrayList<>());
    }
    for (int w = 0; w < windows; w++) {
      double[][] waited = new double[n][n];
      for (int op = 0; op < ObservationLog.WINDOW; op++) {
        operation(job, rows, end, waited, random);
      }
      for (int r = 0; r < n; r++) {
        long[] nanos = new long[n];
        for (int peer = 0; peer < n; peer++) {
          nanos[peer] = (long) waited[r][peer];
        }
        ofRank
            .get(r)
            .add(
                new RankObservation.Window(
                    w, (long) (end[r] - before[r]), rows[r] * ObservationLog.WINDOW, nanos));
        before[r] = end[r];
      }
    }
    return IntStream.range(0, n)
        .mapToObj(r -> observation(r, n, ofRank.get(r), new int[0], new long[0]))
        .toList();
  }

  private static void operation(
      Job job, long[] rows, double[] end, double[][] waited, SplittableRandom random) {
    int n = job.ranks;
    double[] ready = new double[n];
    for (int r = 0; r < n; r++) {
      double compute = COMPUTE * vary(random) * (job.cause == Cause.SKEW ? rows[r] / 1000.0 : 1);
      boolean slow = job.cause == Cause.SLOW_RANK && r == job.victim;
      boolean hiccup = random.nextDouble() < HICCUPS;
      ready[r] = end[r] + compute + (slow ? job.delay : 0) + (hiccup ? 5 * COMPUTE : 0);
    }
    for (int r = 0; r < n; r++) {
      end[r] = ready[r];
      for (int peer = 0; peer < n; peer++) {
        boolean slow = job.cause == Cause.SLOW_LINK && r == job.victim && peer == job.sender;
        double arrival = peer == r ? 0 : ready[peer] + LINK * vary(random) + (slow ? job.delay : 0);
        waited[r][peer] += Math.max(0, arrival - ready[r]);
        end[r] = Math.max(end[r], arrival);
      }
    }
  }

  private static double vary(SplittableRandom random) {
    return Math.exp(NOISE * random.nextGaussian());
  }
}
