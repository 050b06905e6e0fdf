package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.WireName;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.observe.Verdict;
import org.ep4j.observe.Verdict.Cause;
import org.ep4j.observe.WorldObservation;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Isolated;

/**
 * What {@code VerdictTest} computes, on the real engine: jobs with one slow rank, one slow link,
 * one overloaded rank, or nothing of that, and the verdict after 160 operations. Other work on the
 * same cores would be part of the result.
 */
@Isolated
class VerdictTrialsTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);
  private static final int EXPERTS_OF_RANK = 2;
  private static final int TOKENS = 16;
  private static final int HIDDEN = 128;
  private static final int TOP_K = 2;

  /** Pairs of a dispatch and a combine. */
  private static final int PAIRS = 80;

  /**
   * One trial.
   *
   * @param victim the slow or overloaded rank, or the receiver of the slow link
   * @param sender of the slow link
   * @param delay nanoseconds that the cause costs in a pair
   */
  private record Trial(
      long seed,
      int ranks,
      boolean lowLatency,
      boolean nodes,
      Cause cause,
      int victim,
      int sender,
      long delay) {
    static Trial of(long seed) {
      SplittableRandom random = new SplittableRandom(seed);
      Cause cause = CAUSES.get((int) (seed % CAUSES.size()));
      int ranks = 3 + random.nextInt(2);
      int victim = random.nextInt(ranks);
      int sender = (victim + 1 + random.nextInt(ranks - 1)) % ranks;
      boolean nodes = cause == Cause.SLOW_LINK || random.nextBoolean();
      long delay = 2_000_000 + random.nextLong(3_000_000);
      return new Trial(seed, ranks, random.nextBoolean(), nodes, cause, victim, sender, delay);
    }

    /** Whether a verdict names what was slow. */
    boolean right(Verdict verdict) {
      return verdict.cause() == cause
          && (cause == Cause.NONE || verdict.rank() == victim)
          && (cause != Cause.SLOW_LINK || verdict.sender() == sender);
    }
  }

  private static final List<Cause> CAUSES =
      List.of(Cause.NONE, Cause.SLOW_RANK, Cause.SLOW_LINK, Cause.SKEW);

  @Test
  void verdictsNameWhatIsSlow() {
    TestScale.onlyInFull("1000 jobs on idle cores take 6 minutes");
    long first = TestScale.seed() * 100_000;
    int trials = Integer.getInteger("ep4j.cases", 1000);
    List<String> wrong = new ArrayList<>();
    int falseAlarms = 0;
    int withoutCause = 0;
    for (int i = 0; i < trials; i++) {
      Trial trial = Trial.of(first + i);
      WorldObservation seen = run(trial);
      withoutCause += trial.cause == Cause.NONE ? 1 : 0;
      if (!trial.right(seen.verdict())) {
        wrong.add(trial + ": " + seen);
        falseAlarms += trial.cause == Cause.NONE ? 1 : 0;
      }
    }
    System.out.printf(
        "VerdictTrialsTest: -Dep4j.seed=%d, %d trials, %d wrong, of %d without a cause %d%n%s%n",
        TestScale.seed(),
        trials,
        wrong.size(),
        withoutCause,
        falseAlarms,
        String.join("\n", wrong));
    assertThat(wrong.size()).as("of %d trials", trials).isLessThanOrEqualTo(trials / 100);
    assertThat(falseAlarms).isLessThanOrEqualTo(withoutCause / 100);
  }

  private static WorldObservation run(Trial trial) {
    SlowLinkWireProvider.slow(
        trial.cause == Cause.SLOW_LINK
            ? new SlowLinkWireProvider.Link(trial.sender, trial.victim, trial.delay / 2)
            : new SlowLinkWireProvider.Link(-1, -1, 0));
    return ThreadRanks.call(trial.ranks, group -> rank(trial, group)).getFirst();
  }

  private static WorldObservation rank(Trial trial, Group group) {
    int experts = trial.ranks * EXPERTS_OF_RANK;
    BufferConfig.Builder config =
        BufferConfig.builder()
            .engine(EngineName.HOST)
            .hidden(HIDDEN)
            .topK(TOP_K)
            .placement(ExpertPlacement.blocks(experts, trial.ranks))
            .timeout(TIMEOUT)
            .ranksPerNode(trial.nodes ? 1 : trial.ranks)
            .wire(trial.nodes ? SlowLinkWireProvider.NAME : WireName.AUTO);
    if (trial.lowLatency) {
      config.lowLatency(TOKENS);
    } else {
      config.highThroughput(
          HighThroughputConfig.builder().maxTokens(TOKENS).rowDType(DType.BF16).build());
    }
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config.build())) {
      Routing routing = routing(trial, group.rank());
      Tensor x = Tensor.ofBf16(new short[TOKENS * HIDDEN], TOKENS, HIDDEN);
      for (int pair = 0; pair < PAIRS; pair++) {
        if (trial.lowLatency) {
          lowLatency(trial, buffer, x, routing, group.rank());
        } else {
          highThroughput(trial, buffer, x, routing, group.rank());
        }
      }
      WorldObservation seen = WorldObservation.gather(group, buffer.observe(), TIMEOUT);
      group.barrier(TIMEOUT);
      return seen;
    }
  }

  /**
   * Ranks in turn, so that all receive as many rows: a rank with more rows is late in every
   * operation. With skew, most tokens choose experts of the victim.
   */
  private static Routing routing(Trial trial, int rank) {
    SplittableRandom random = new SplittableRandom(trial.seed * 31 + rank);
    long[] ids = new long[TOKENS * TOP_K];
    float[] weights = new float[TOKENS * TOP_K];
    for (int t = 0; t < TOKENS; t++) {
      boolean hot = trial.cause == Cause.SKEW && random.nextInt(4) != 0;
      int place = rank + t * TOP_K;
      int first = hot ? trial.victim * EXPERTS_OF_RANK : expert(place % trial.ranks, random);
      int second = hot ? first + 1 : expert((place + 1) % trial.ranks, random);
      ids[t * TOP_K] = first;
      ids[t * TOP_K + 1] = second;
      weights[t * TOP_K] = 0.5f;
      weights[t * TOP_K + 1] = 0.5f;
    }
    return new Routing(Tensor.of(ids, TOKENS, TOP_K), Tensor.of(weights, TOKENS, TOP_K));
  }

  private static int expert(int rank, SplittableRandom random) {
    return rank * EXPERTS_OF_RANK + random.nextInt(EXPERTS_OF_RANK);
  }

  private static void highThroughput(
      Trial trial, ExpertBuffer buffer, Tensor x, Routing routing, int rank) {
    FlatDispatch dispatch = buffer.dispatch(Tokens.of(x), routing, DispatchOptions.DEFAULT);
    compute(trial, rank, dispatch.x().size(0));
    buffer.combine(dispatch.x(), dispatch.handle(), CombineOptions.DEFAULT);
  }

  private static void lowLatency(
      Trial trial, ExpertBuffer buffer, Tensor x, Routing routing, int rank) {
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            x, routing, LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
    int[] counts = dispatch.counts().toIntArray();
    compute(trial, rank, IntStream.of(counts).sum());
    buffer.lowLatencyCombine(
        dispatch.x(), routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT);
  }

  /** The experts' work: some time for each row, and more on a slow rank. */
  private static void compute(Trial trial, int rank, long rows) {
    long nanos = 10_000 * rows;
    if (trial.cause == Cause.SLOW_RANK && rank == trial.victim) {
      nanos += trial.delay;
    } else if (trial.cause == Cause.SKEW) {
      nanos *= 10;
    }
    LockSupport.parkNanos(nanos);
  }
}
