package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.ToDoubleFunction;
import org.assertj.core.data.Offset;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TrafficTest {
  private static final List<ToDoubleFunction<RankTraffic>> FIELDS =
      List.of(
          RankTraffic::sent,
          RankTraffic::received,
          RankTraffic::nodeRows,
          RankTraffic::nvlinkOut,
          RankTraffic::nvlinkIn,
          RankTraffic::nicOut,
          RankTraffic::nicIn,
          RankTraffic::nodeRowsIn);

  @Test
  void twoRanksWithOneExpertEachReceiveEveryToken() {
    RankTraffic rank = rank(Requests.ht(2, 2).tokens(10).experts(2).topK(2).build());

    assertThat(rank).isEqualTo(new RankTraffic(20, 20, 10, 10, 10, 0, 0, 10));
  }

  @Test
  void aChoiceOfOneInTwoHalvesTheRows() {
    RankTraffic rank = rank(Requests.ht(2, 1).tokens(10).experts(2).topK(1).build());

    assertThat(rank).isEqualTo(new RankTraffic(10, 10, 10, 0, 0, 5, 5, 10));
  }

  @Test
  void lowLatencySendsARowForEachChoice() {
    RankTraffic rank =
        rank(Requests.ht(4, 2).kind(PlanKind.LL).tokens(100).experts(8).topK(4).build());

    assertThat(rank).isEqualTo(new RankTraffic(400, 400, 400, 100, 100, 200, 200, 400));
  }

  @Test
  void probabilityIsThatOfDrawsWithoutReplacement() {
    // Of 4 experts, 2 drawn: both lie in the other half with probability 2/4 x 1/3.
    assertThat(Traffic.hit(4, 2, 2)).isEqualTo(1 - 1.0 / 6, within(1e-12));
    assertThat(Traffic.hit(4, 2, 3)).isEqualTo(1);
    assertThat(Traffic.hit(8, 0, 3)).isZero();
  }

  /** The models of the published tables choose 4 groups, on 2 nodes too. */
  @Test
  void moreGroupsThanNodesAreAllNodes() {
    Requests two = Requests.ht(16, 8).tokens(4096).experts(256).topK(8);
    assertThat(rank(two.groups(4).build())).isEqualTo(rank(two.groups(0).build()));
    Requests four = Requests.ht(32, 8).tokens(4096).experts(256).topK(8);
    assertThat(rank(four.groups(3).build())).isNotEqualTo(rank(four.groups(0).build()));
  }

  @ParameterizedTest
  @EnumSource(PlanKind.class)
  void samplesOfUniformRoutingAgreeWithTheClosedForm(PlanKind kind) {
    PlanRequest all = Requests.ht(8, 2).kind(kind).tokens(4096).experts(64).topK(6).build();
    PlanRequest grouped =
        Requests.ht(8, 2).kind(kind).tokens(4096).experts(64).topK(6).groups(2).build();
    for (PlanRequest request : List.of(all, grouped)) {
      RankTraffic expected = rank(request);
      for (RankTraffic sampled : CountedTraffic.of(request, 7).ranks()) {
        for (ToDoubleFunction<RankTraffic> field : FIELDS) {
          // 8192 tokens a rank: 6 % are more than five standard deviations of every field.
          assertThat(field.applyAsDouble(sampled) / field.applyAsDouble(expected))
              .as("%s of %s", sampled, request)
              .isCloseTo(1, within(0.06));
        }
      }
    }
  }

  /** Relabelled experts and unequal blocks are counted, equal blocks have a closed form. */
  @Test
  void countedPlacementsAgreeWithTheClosedForm() {
    Requests blocks = Requests.ht(8, 2).tokens(4096).experts(64).topK(6);
    int[] rankOf = new int[64];
    Arrays.setAll(rankOf, e -> e % 8);
    Traffic expected = Traffic.of(blocks.build());

    Traffic counted =
        Traffic.of(
            blocks.placement(ReplicatedPlacement.of(ExpertPlacement.table(rankOf, 8))).build());

    assertThat(counted).isNotEqualTo(expected);
    for (int rank = 0; rank < 8; rank++) {
      RankTraffic mean = expected.ranks().get(rank);
      RankTraffic found = counted.ranks().get(rank);
      assertThat(found.received()).isNotEqualTo(mean.received());
      for (ToDoubleFunction<RankTraffic> field : FIELDS) {
        assertThat(field.applyAsDouble(found) / field.applyAsDouble(mean))
            .isCloseTo(1, within(0.06));
      }
    }
  }

  @Test
  void rowsAreNeitherMadeNorLost() {
    Random random = new Random(20261127);
    for (int i = 0; i < 60; i++) {
      int onNode = 1 << random.nextInt(3);
      int nodes = 1 + random.nextInt(4);
      int ranks = onNode * nodes;
      Requests requests =
          Requests.ht(ranks, onNode)
              .kind(random.nextBoolean() ? PlanKind.HT : PlanKind.LL)
              .routing(RoutingKind.values()[random.nextInt(3)])
              .tokens(1 + random.nextInt(300))
              .experts(ranks * (1 + random.nextInt(4)))
              .topK(1 + random.nextInt(Math.min(8, ranks)));
      PlanRequest request = requests.build();
      if (ranks > 1 && random.nextBoolean()) {
        long[] load = random.longs(request.experts(), 1, 100).toArray();
        int replicas = random.nextInt(request.experts() + 1);
        request = request.withPlacement(ExpertPlacement.balance(load, ranks, replicas));
      }
      Traffic traffic = Traffic.of(request);

      same(traffic, RankTraffic::sent, RankTraffic::received, request);
      same(traffic, RankTraffic::nvlinkOut, RankTraffic::nvlinkIn, request);
      same(traffic, RankTraffic::nicOut, RankTraffic::nicIn, request);
      same(traffic, RankTraffic::nodeRows, RankTraffic::nodeRowsIn, request);
      double crossing = 0;
      double staying = 0;
      for (int source = 0; source < nodes; source++) {
        for (int target = 0; target < nodes; target++) {
          double rows = traffic.rowsBetween(source, target);
          crossing += source == target ? 0 : rows;
          staying += source == target ? rows : 0;
        }
      }
      assertThat(crossing)
          .as("%s", request)
          .isCloseTo(sum(traffic, RankTraffic::nicOut), rounding());
      assertThat(crossing + staying).isCloseTo(sum(traffic, RankTraffic::nodeRows), rounding());
      assertThat(traffic.imbalance()).isGreaterThan(1 - 1e-9);
    }
  }

  @Test
  void hotExpertsLoadTheirRanks() {
    PlanRequest hot =
        Requests.ht(8, 8).tokens(4096).experts(64).topK(2).routing(RoutingKind.HOT).build();

    Traffic traffic = Traffic.of(hot);

    // Three draws of four go to the 8 experts of rank 0; it has most tokens once, others fewer.
    assertThat(traffic.imbalance()).isGreaterThan(3);
    assertThat(traffic.ranks().getFirst().received())
        .isEqualTo(traffic.ranks().stream().mapToDouble(RankTraffic::received).max().orElseThrow());
  }

  private static Offset<Double> rounding() {
    return within(1e-3);
  }

  private static void same(
      Traffic traffic,
      ToDoubleFunction<RankTraffic> out,
      ToDoubleFunction<RankTraffic> in,
      PlanRequest request) {
    assertThat(sum(traffic, out)).as("%s", request).isCloseTo(sum(traffic, in), rounding());
  }

  private static double sum(Traffic traffic, ToDoubleFunction<RankTraffic> field) {
    return traffic.ranks().stream().mapToDouble(field).sum();
  }

  private static RankTraffic rank(PlanRequest request) {
    return Traffic.expected(request).ranks().getFirst();
  }
}
