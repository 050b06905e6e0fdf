package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PlacementGainTest {
  /** Loads of drawn tokens with distinct experts, as a router makes them; 12.5 % replicas. */
  @ParameterizedTest
  @CsvSource({
    "ZIPF, 256, 32, 8, HT", "ZIPF, 256, 16, 8, LL", "ZIPF, 64, 8, 4, HT", "ZIPF, 128, 16, 1, LL",
    "HOT, 256, 32, 8, HT", "HOT, 256, 32, 8, LL", "HOT, 64, 8, 2, HT", "HOT, 256, 16, 1, HT"
  })
  void countedLoadsAreBalanced(RoutingKind kind, int experts, int ranks, int topK, PlanKind ops) {
    PlanRequest request =
        Requests.ht(ranks, ranks / 2)
            .kind(ops)
            .tokens(1024)
            .experts(experts)
            .topK(topK)
            .routing(kind)
            .build();
    ReplicatedPlacement placed =
        ExpertPlacement.balance(ExpertLoads.known(request), ranks, experts / 8);

    PlacementGain gain = PlacementGain.of(slowLinks(), request.withPlacement(placed));

    assertThat(gain.placedBalance()).isBetween(0.95, 1 + 1e-9);
    assertThat(gain.blocksBalance()).isLessThan(0.7);
    assertThat(gain.placed().imbalance()).isLessThan(1.06);
    assertThat(gain.placed().dispatch().micros())
        .isLessThan(gain.blocks().dispatch().micros() * 0.9);
  }

  /** A machine whose time is that of its links. */
  private static MachineProfile slowLinks() {
    return Requests.machine(
        Map.of(
            ProfileConstant.RANKS_PER_NODE, 32.0,
            ProfileConstant.NVLINK_DISPATCH_GBPS, 1.0,
            ProfileConstant.NIC_GBPS, 1.0));
  }

  @Test
  void blocksGainNothing() {
    PlanRequest request = Requests.ht(8, 4).experts(32).topK(4).routing(RoutingKind.ZIPF).build();

    PlacementGain gain =
        PlacementGain.of(Requests.machine(Map.of()), request.withPlacement(request.placed()));

    assertThat(gain.placed()).isEqualTo(gain.blocks());
    assertThat(gain.placedBalance()).isEqualTo(gain.blocksBalance());
    assertThat(gain.blocks()).isEqualTo(Plan.of(Requests.machine(Map.of()), request));
  }

  @Test
  void uniformBlocksAreBalanced() {
    PlanRequest request = Requests.ht(4, 4).experts(8).topK(2).build();
    assertThat(ExpertLoads.of(request)).containsOnly(1);

    // Uneven blocks: 3, 3, 2, 2 of 10.
    PlanRequest uneven =
        Requests.ht(4, 4)
            .experts(10)
            .topK(2)
            .placement(ReplicatedPlacement.of(ExpertPlacement.blocks(10, 4)))
            .build();
    PlacementGain gain = PlacementGain.of(Requests.machine(Map.of()), uneven);
    assertThat(gain.blocksBalance()).isCloseTo(2.5 / 3, within(1e-12));
  }

  /** A placement that is balanced for the tokens that it is measured on looks better than it is. */
  @Test
  void balancersKnowOtherTokensThanThePlan() {
    PlanRequest request = Requests.ht(8, 4).experts(32).topK(4).routing(RoutingKind.ZIPF).build();
    long[] known = ExpertLoads.known(request);
    long[] planned = ExpertLoads.of(request);

    assertThat(known).isNotEqualTo(planned);
    assertThat(Arrays.stream(known).sum()).isEqualTo(Arrays.stream(planned).sum());
    for (int e = 0; e < known.length; e++) {
      // 1700 tokens of the coldest: 15 % are four standard deviations of the ratio.
      assertThat((double) known[e] / planned[e]).isCloseTo(1, within(0.15));
    }
  }

  @Test
  void recordedLoadsAreCounted() {
    RecordedRouting recorded = new RecordedRouting(new int[] {0, 1, 0, 2, 0, -1, 3, 0}, 2, 2, 2);
    PlanRequest request = Requests.ht(2, 2).tokens(2).experts(4).topK(2).recorded(recorded).build();

    assertThat(ExpertLoads.of(request)).containsExactly(4, 1, 1, 1);
    assertThat(ExpertLoads.known(request)).containsExactly(4, 1, 1, 1);
    List<RankTraffic> ranks = Traffic.of(request).ranks();
    // Tokens {0, 1} and {0, 2} of rank 0, {0} and {3, 0} of rank 1.
    assertThat(ranks.get(0)).isEqualTo(new RankTraffic(3, 4, 2, 1, 2, 0, 0, 2));
    assertThat(ranks.get(1)).isEqualTo(new RankTraffic(3, 2, 2, 2, 1, 0, 0, 2));
  }

  @Test
  void replicasDivideTheRowsOfAnExpert() {
    // Every token chooses expert 0, which lies on both ranks: each keeps half of its rows.
    RecordedRouting recorded = new RecordedRouting(new int[] {0, 0, 0, 0, 0, 0, 0, 0}, 1, 4, 4);
    Requests base = Requests.ht(2, 1).tokens(4).experts(3).topK(1).recorded(recorded);
    ReplicatedPlacement placed =
        ReplicatedPlacement.of(ExpertPlacement.blocks(4, 2), new int[] {0, 1, 0, 2}, 3);

    for (PlanKind kind : PlanKind.values()) {
      Traffic traffic = Traffic.of(base.kind(kind).placement(placed).build());

      assertThat(traffic.imbalance()).isEqualTo(1);
      for (RankTraffic rank : traffic.ranks()) {
        assertThat(rank.received()).isEqualTo(4);
        assertThat(rank.nicOut()).isEqualTo(2);
        assertThat(rank.nicIn()).isEqualTo(2);
      }
    }
  }

  /** Rank r begins with replica r: ranks with one token each do not all choose the first. */
  @Test
  void eachRankBeginsWithItsOwnReplica() {
    RecordedRouting recorded = new RecordedRouting(new int[] {0, 0, 0, 0}, 1, 1, 1, 1, 1);
    ReplicatedPlacement placed =
        ReplicatedPlacement.of(ExpertPlacement.blocks(4, 4), new int[] {0, 0, 0, 1}, 2);

    Traffic traffic =
        Traffic.of(
            Requests.ht(4, 4)
                .tokens(1)
                .experts(2)
                .topK(1)
                .recorded(recorded)
                .placement(placed)
                .build());

    assertThat(traffic.ranks().stream().map(RankTraffic::received))
        .containsExactly(2.0, 1.0, 1.0, 0.0);
    // Ranks 0 to 2 keep their rows; replica 3 mod 3 of rank 3 lies on rank 0.
    assertThat(traffic.ranks().stream().map(RankTraffic::nvlinkOut))
        .containsExactly(0.0, 0.0, 0.0, 1.0);
  }

  @Test
  void recordingsAreScaledToTheTokensOfThePlan() {
    RecordedRouting recorded = new RecordedRouting(new int[] {0, 1, 1, 1}, 1, 2, 2);
    Requests base = Requests.ht(2, 2).experts(2).topK(1).recorded(recorded);

    RankTraffic few = Traffic.of(base.tokens(2).build()).ranks().get(1);
    RankTraffic many = Traffic.of(base.tokens(200).build()).ranks().get(1);

    assertThat(few.received()).isEqualTo(3);
    assertThat(many.received()).isEqualTo(300);
    assertThat(many.nvlinkIn()).isEqualTo(100);
  }
}
