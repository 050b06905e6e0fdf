package org.ep4j.routing;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.balance.Balancer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlacementBalanceTest {
  private static final long SEED = Long.getLong("ep4j.seed", 20261127L);
  private static final int CASES = Boolean.getBoolean("ep4j.full") ? 5000 : 400;

  @Test
  void allSlotsAreFilledAndNoRankHoldsAnExpertTwice() {
    Random random = new Random(SEED);
    for (int i = 0; i < CASES; i++) {
      int ranks = 1 + random.nextInt(24);
      long[] load = randomLoad(random, 1 + random.nextInt(80));
      int least = Math.max(0, ranks - load.length);
      int max = load.length * (ranks - 1);
      int replicas = Math.min(max, least + random.nextInt(40));
      String name = Arrays.toString(load) + " on " + ranks + " with " + replicas;

      ReplicatedPlacement balanced = ExpertPlacement.balance(load, ranks, replicas);

      assertThat(balanced.placement())
          .as(name)
          .isEqualTo(ExpertPlacement.blocks(load.length + replicas, ranks));
      assertThat(balanced.experts()).isEqualTo(load.length);
      for (int e = 0; e < load.length; e++) {
        Set<Integer> holders = new HashSet<>();
        for (int n = 0; n < balanced.replicas(e); n++) {
          int physical = balanced.replica(e, n);
          assertThat(balanced.logicalOf(physical)).isEqualTo(e);
          assertThat(holders.add(balanced.placement().rankOf(physical))).as(name).isTrue();
        }
        assertThat(holders).as("expert %d of %s", e, name).isNotEmpty();
      }
      assertThat(ExpertPlacement.balance(load, ranks, replicas)).isEqualTo(balanced);
    }
  }

  @Test
  void smallCasesReachTheOptimum() {
    Random random = new Random(SEED);
    int cases = 0;
    while (cases < CASES) {
      int ranks = 2 + random.nextInt(3);
      long[] load = randomLoad(random, 2 + random.nextInt(5));
      int replicas = Math.max(0, ranks - load.length) + random.nextInt(4);
      if (load.length + replicas > 9 || replicas > load.length * (ranks - 1)) {
        continue;
      }
      cases++;

      double[] loads = ExpertPlacement.balance(load, ranks, replicas).rankLoads(load);

      double optimum = new AllPlacements(load, ranks, replicas).least();
      assertThat(Arrays.stream(loads).max().orElseThrow())
          .as("%s on %d ranks with %d replicas", Arrays.toString(load), ranks, replicas)
          .isCloseTo(optimum, within(1e-9 * optimum));
    }
  }

  /** Tries everything, and shares no code with the balancer. */
  private static final class AllPlacements {
    private final long[] load;
    private final int ranks;
    private final int[] rankOf;
    private final int[] expertIn;
    private double least = Double.MAX_VALUE;

    AllPlacements(long[] load, int ranks, int replicas) {
      this.load = load;
      this.ranks = ranks;
      ExpertPlacement slots = ExpertPlacement.blocks(load.length + replicas, ranks);
      rankOf = IntStream.range(0, slots.experts()).map(slots::rankOf).toArray();
      expertIn = new int[slots.experts()];
    }

    double least() {
      fill(0);
      return least;
    }

    private void fill(int slot) {
      if (slot == expertIn.length) {
        least = Math.min(least, busiest());
        return;
      }
      // Experts of a rank ascend: other orders are the same placement.
      boolean begins = slot == 0 || rankOf[slot] != rankOf[slot - 1];
      for (int e = begins ? 0 : expertIn[slot - 1] + 1; e < load.length; e++) {
        expertIn[slot] = e;
        fill(slot + 1);
      }
    }

    private double busiest() {
      int[] counts = new int[load.length];
      for (int e : expertIn) {
        counts[e]++;
      }
      double[] loads = new double[ranks];
      for (int slot = 0; slot < expertIn.length; slot++) {
        loads[rankOf[slot]] += (double) load[expertIn[slot]] / counts[expertIn[slot]];
      }
      boolean complete = Arrays.stream(counts).allMatch(count -> count > 0);
      return complete ? Arrays.stream(loads).max().orElseThrow() : Double.MAX_VALUE;
    }
  }

  private static void largeWorldsInFull(int ranks) {
    assumeTrue(
        ranks < 1000 || Boolean.getBoolean("ep4j.full"), "seconds each; -Dep4j.full=true runs it");
  }

  /** Popularity 1 / place ^ exponent, with 12.5 % replicas. */
  @ParameterizedTest
  @CsvSource({
    "64, 8, 0.5, 0.99",
    "64, 8, 1, 0.99",
    "64, 8, 1.5, 0.99",
    "64, 8, 2, 0.99",
    "128, 16, 0.5, 0.99",
    "128, 16, 1, 0.99",
    "128, 16, 2, 0.99",
    "128, 16, 3, 0.97",
    "256, 8, 0.5, 0.99",
    "256, 8, 1, 0.99",
    "256, 8, 2, 0.99",
    "256, 8, 3, 0.99",
    "256, 16, 1, 0.99",
    "256, 16, 2, 0.99",
    "256, 16, 3, 0.97",
    "256, 32, 0.5, 0.99",
    "256, 32, 0.8, 0.99",
    "256, 32, 1, 0.99",
    "256, 32, 1.2, 0.99",
    "256, 32, 1.5, 0.99",
    "256, 32, 2, 0.99",
    "256, 32, 3, 0.97",
    "256, 64, 0.5, 0.99",
    "256, 64, 0.8, 0.99",
    "8192, 2048, 0.5, 0.99",
    "8192, 2048, 0.8, 0.95"
  })
  void zipfIsBalancedWithAnEighthOfReplicas(int experts, int ranks, double exponent, double least) {
    largeWorldsInFull(ranks);
    long[] load = zipf(experts, exponent);

    double reached = ExpertPlacement.balance(load, ranks, experts / 8).balancedness(load);

    System.out.printf("%d experts, %d ranks, zipf %s: %.4f%n", experts, ranks, exponent, reached);
    assertThat(reached).isBetween(least, 1 + 1e-9);
  }

  /** Where replicas do not suffice, or slots are few: what is reached of the bound. */
  @ParameterizedTest
  @CsvSource({
    "64, 8, 3, 0.92", "256, 64, 1, 0.94", "256, 64, 1.2, 0.91", "256, 64, 2, 0.99",
    "256, 96, 0.5, 0.97", "256, 96, 0.8, 0.83", "256, 96, 1, 0.90", "256, 144, 1, 0.95",
    "256, 288, 1, 0.999", "2048, 2048, 1, 0.999", "8192, 2048, 1, 0.90", "8192, 2048, 1.5, 0.99"
  })
  void fewSlotsComeCloseToTheBound(int experts, int ranks, double exponent, double least) {
    largeWorldsInFull(ranks);
    long[] load = zipf(experts, exponent);
    int replicas = experts / 8;

    double reached = ExpertPlacement.balance(load, ranks, replicas).balancedness(load);

    double mean = (double) Arrays.stream(load).sum() / ranks;
    double bound = mean / Balancer.bound(load, ranks, replicas);
    System.out.printf(
        "%d experts, %d ranks, zipf %s: %.4f of %.4f%n", experts, ranks, exponent, reached, bound);
    assertThat(reached / bound).isBetween(least, 1 + 1e-9);
  }

  @Test
  void oneHotExpertIsBoundByItsReplicas() {
    long[] load = new long[16];
    load[3] = 1000;

    ReplicatedPlacement balanced = ExpertPlacement.balance(load, 8, 4);

    // 5 of 8 ranks have a fifth each.
    assertThat(balanced.replicas(3)).isEqualTo(5);
    assertThat(balanced.balancedness(load)).isCloseTo(5.0 / 8, within(1e-12));
  }

  @Test
  void groupsStayOnTheirNodes() {
    Random random = new Random(SEED);
    for (int i = 0; i < CASES / 4; i++) {
      int nodes = 1 + random.nextInt(4);
      int onNode = 1 + random.nextInt(4);
      int groups = nodes * (1 + random.nextInt(3));
      int ranks = nodes * onNode;
      long[] load = randomLoad(random, groups * onNode * (1 + random.nextInt(4)));
      int replicas = onNode == 1 ? 0 : ranks * random.nextInt(3);
      replicas = Math.min(replicas, load.length * (onNode - 1));

      ReplicatedPlacement balanced = ExpertPlacement.balance(load, ranks, replicas, groups, onNode);

      for (int g = 0; g < groups; g++) {
        Set<Integer> found = new HashSet<>();
        for (int e = g * (load.length / groups); e < (g + 1) * (load.length / groups); e++) {
          Set<Integer> holders = new HashSet<>();
          for (int n = 0; n < balanced.replicas(e); n++) {
            int rank = balanced.placement().rankOf(balanced.replica(e, n));
            assertThat(holders.add(rank)).isTrue();
            found.add(rank / onNode);
          }
        }
        assertThat(found).as("nodes of group %d", g).hasSize(1);
      }
    }
  }

  @Test
  void groupsAreBalancedOverNodes() {
    // Groups of 4 experts with 9, 8, 2 and 1 times the load: 9 + 1 and 8 + 2 are even.
    long[] load = new long[16];
    long[] times = {9, 8, 2, 1};
    Arrays.setAll(load, e -> 10 * times[e / 4]);

    ReplicatedPlacement balanced = ExpertPlacement.balance(load, 8, 8, 4, 4);

    double[] loads = balanced.rankLoads(load);
    assertThat(Arrays.stream(loads, 0, 4).sum()).isCloseTo(400, within(1e-9));
    assertThat(balanced.balancedness(load)).isGreaterThan(0.9);
  }

  @Test
  void loadsThatAreNoneAreRefused() {
    load(() -> ExpertPlacement.balance(new long[] {1, -1}, 2, 0), "load[1] = -1");
    load(() -> ExpertPlacement.balance(new long[4], 2, 0), "0 for all experts");
    load(() -> ExpertPlacement.balance(new long[0], 1, 0), "load = 0 experts");
    long[] large = {Long.MAX_VALUE / 2, Long.MAX_VALUE / 2, 2};
    load(() -> ExpertPlacement.balance(large, 1, 0), "a long can hold");
    large[2] = 1;
    assertThat(ExpertPlacement.balance(large, 3, 0).balancedness(large))
        .isCloseTo(2.0 / 3, within(1e-9));
  }

  @Test
  void numbersThatDoNotFitAreRefused() {
    long[] load = {5, 4, 3, 2};
    replicas(() -> ExpertPlacement.balance(load, 0, 0), "ranks = 0");
    replicas(() -> ExpertPlacement.balance(load, -1, 0), "ranks = -1");
    replicas(() -> ExpertPlacement.balance(load, 2, -1), "replicas = -1", "0..4");
    replicas(() -> ExpertPlacement.balance(load, 2, 5), "replicas = 5", "0..4");
    replicas(() -> ExpertPlacement.balance(load, 1, 1), "replicas = 1", "0..0");
    replicas(() -> ExpertPlacement.balance(load, 7, 2), "ranks = 7", "at most 6", "3 replicas");
    replicas(() -> ExpertPlacement.balance(load, 8, Integer.MAX_VALUE), "replicas = ");
    replicas(() -> ExpertPlacement.balance(load, 4, 0, 2, 3), "ranksPerNode = 3");
    replicas(() -> ExpertPlacement.balance(load, 4, 0, 2, 0), "ranksPerNode = 0");
    replicas(() -> ExpertPlacement.balance(load, 4, 0, 3, 2), "groups = 3", "2 nodes");
    replicas(() -> ExpertPlacement.balance(load, 4, 0, 1, 2), "groups = 1");
    replicas(() -> ExpertPlacement.balance(load, 4, 2, 2, 2), "replicas = 2", "equal slots");
    replicas(() -> ExpertPlacement.balance(load, 2, 2, 2, 1), "replicas = 2", "of its node");
    assertThat(ExpertPlacement.balance(load, 7, 3).placement().maxLocalExperts()).isEqualTo(1);
  }

  private static void load(ThrowingCallable call, String... texts) {
    refused(call, ErrorCode.EXPERT_LOAD, texts);
  }

  private static void replicas(ThrowingCallable call, String... texts) {
    refused(call, ErrorCode.EXPERT_REPLICAS, texts);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String... texts) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContainingAll(texts);
  }

  private static long[] zipf(int experts, double exponent) {
    long[] load = new long[experts];
    Arrays.setAll(load, e -> (long) (1e12 / Math.pow(e + 1, exponent)));
    return load;
  }

  /** Even, skewed, alike or mostly zero. */
  private static long[] randomLoad(Random random, int experts) {
    long[] load = new long[experts];
    int kind = random.nextInt(4);
    for (int e = 0; e < experts; e++) {
      load[e] =
          switch (kind) {
            case 0 -> random.nextInt(1000);
            case 1 -> 100_000 / (1 + random.nextInt(experts * experts));
            case 2 -> 1 + random.nextInt(3);
            default -> random.nextInt(5) == 0 ? random.nextLong(1L << 50) : 0;
          };
    }
    load[random.nextInt(experts)]++;
    return load;
  }
}
