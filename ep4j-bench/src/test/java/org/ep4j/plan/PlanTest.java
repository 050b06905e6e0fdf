package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.EnumMap;
import java.util.Map;
import java.util.Random;
import org.assertj.core.data.Offset;
import org.ep4j.BufferSizes;
import org.ep4j.config.BackendName;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Predictions by hand arithmetic, on machines in which all but one thing is free. */
class PlanTest {
  /** What the free parts of a machine may add. */
  private static final Offset<Double> HAND = within(0.002);

  @Test
  void twoRanksOnTwoNodesTakeTheBytesOverTheRateOfTheNic() {
    // 1000 tokens to both ranks: 1000 rows of 256 bytes cross at 1 GB/s, 2000 count.
    Plan plan =
        Plan.of(
            Requests.machine(Map.of(ProfileConstant.NIC_GBPS, 1.0)),
            Requests.ht(2, 1).tokens(1000).topK(2).build());

    double fill = 32 * 256 / 1e3;
    assertThat(plan.dispatch().micros()).isEqualTo(256 + fill, relative(256));
    assertThat(plan.combine().micros()).isEqualTo(256 + fill, relative(256));
    assertThat(plan.dispatch().gbps()).isEqualTo(2 * 256 / (256 + fill), HAND);
    assertThat(plan.dispatch().limit()).isEqualTo(Term.NIC);
    assertThat(plan.dispatch().terms().get(Term.NIC)).isEqualTo(256, HAND);
    assertThat(plan.imbalance()).isEqualTo(1);
  }

  @Test
  void oneNodeTakesTheBytesOverTheRateOfNvlink() {
    Plan plan =
        Plan.of(
            Requests.machine(
                Map.of(
                    ProfileConstant.NVLINK_DISPATCH_GBPS, 2.0,
                    ProfileConstant.NVLINK_COMBINE_GBPS, 1.0)),
            Requests.ht(2, 2).tokens(1000).topK(2).dtype(PlanDType.FP8).build());

    // FP8: 128 bytes and one scale.
    assertThat(plan.dispatch().micros()).isEqualTo(66, relative(66));
    assertThat(plan.combine().micros()).isEqualTo(256, relative(256));
    assertThat(plan.dispatch().gbps()).isEqualTo(4, relative(4));
    assertThat(plan.dispatch().limit()).isEqualTo(Term.NVLINK);
  }

  @Test
  void smsShareTheRows() {
    MachineProfile machine =
        Requests.machine(Map.of(ProfileConstant.SM_ROW_US, 1.0, ProfileConstant.SM_GBPS, 0.256));
    Requests request = Requests.ht(2, 2).tokens(1000).topK(2);

    // 2000 rows of 1 us and 256 bytes.
    assertThat(Plan.of(machine, request.sms(1).build()).dispatch().micros())
        .isEqualTo(4000, relative(4000));
    Prediction ten = Plan.of(machine, request.sms(10).build()).dispatch();
    assertThat(ten.micros()).isEqualTo(400, relative(400));
    assertThat(ten.limit()).isEqualTo(Term.SM);
  }

  @Test
  void betweenNodesSmsHandRowsToNodes() {
    MachineProfile machine = Requests.machine(Map.of(ProfileConstant.SM_NODE_ROW_US, 1.0));

    // 1000 tokens become a row for each of two nodes, whatever the number of their ranks.
    Plan plan = Plan.of(machine, Requests.ht(4, 2).tokens(1000).topK(4).build());
    assertThat(plan.dispatch().micros()).isEqualTo(2000, relative(2000));
  }

  @Test
  void memoryIsWrittenAndRead() {
    MachineProfile machine = Requests.machine(Map.of(ProfileConstant.MEMORY_GBPS, 1.0));

    Prediction dispatch =
        Plan.of(machine, Requests.ht(2, 2).tokens(1000).topK(2).build()).dispatch();

    assertThat(dispatch.micros()).isEqualTo(2 * 2000 * 0.256, relative(1024));
    assertThat(dispatch.limit()).isEqualTo(Term.MEMORY);
  }

  @Test
  void equalTermsTakeAQuarterLongerThanOne() {
    Map<Term, Double> terms = new EnumMap<>(Term.class);
    terms.put(Term.NIC, 100.0);
    assertThat(HighThroughputModel.overlapped(terms)).isEqualTo(100, within(1e-9));
    terms.put(Term.NVLINK, 100.0);
    assertThat(HighThroughputModel.overlapped(terms)).isEqualTo(125.992, within(1e-3));
    terms.put(Term.FIXED, 1e6);
    assertThat(HighThroughputModel.overlapped(terms)).isEqualTo(125.992, within(1e-3));
  }

  @Test
  void fixedCostsAdd() {
    MachineProfile machine =
        Requests.machine(
            Map.of(
                ProfileConstant.KERNEL_US, 30.0,
                ProfileConstant.PEER_US, 2.0,
                ProfileConstant.CALL_US, 10.0,
                ProfileConstant.HOP_US, 3.0,
                ProfileConstant.NCCL_US, 500.0));

    Prediction oneNode = Plan.of(machine, nccl(4, 4)).dispatch();
    assertThat(oneNode.micros()).isEqualTo(30 + 3 * 2 + 3, relative(39));
    assertThat(oneNode.callMicros()).isEqualTo(oneNode.micros() + 10, within(1e-9));
    assertThat(Plan.of(machine, nccl(4, 2)).dispatch().micros())
        .isEqualTo(30 + 2 + 2 * 3 + 500, relative(538));
  }

  @Test
  void lowLatencyIsTheSlowerOfTwoPaths() {
    MachineProfile machine =
        Requests.machine(
            Map.of(
                ProfileConstant.NIC_GBPS, 1.0,
                ProfileConstant.LL_NIC_US, 20.0,
                ProfileConstant.LL_NIC_PEER_US, 0.5,
                ProfileConstant.NVLINK_DISPATCH_GBPS, 1.0,
                ProfileConstant.LL_NVLINK_US, 5.0,
                ProfileConstant.LL_NVLINK_PEER_US, 1.0));

    // Two rows a token, half of them over NICs, a quarter over NVLink; 256 bytes, 16 of header.
    Prediction dispatch =
        Plan.of(machine, Requests.ht(4, 2).kind(PlanKind.LL).tokens(100).topK(2).build())
            .dispatch();
    assertThat(dispatch.micros()).isEqualTo(20 + 2 * 0.5 + 100 * 0.272, relative(48));
    assertThat(dispatch.gbps()).isEqualTo(200 * 0.272 / 48.2, HAND);
    assertThat(dispatch.limit()).isEqualTo(Term.NIC);

    Prediction oneNode =
        Plan.of(machine, Requests.ht(4, 4).kind(PlanKind.LL).tokens(100).topK(2).build())
            .dispatch();
    assertThat(oneNode.micros()).isEqualTo(5 + 3 + 150 * 0.272, relative(49));
  }

  @Test
  void rowsOfASingleRankPassItsMemory() {
    MachineProfile machine = Requests.machine(Map.of(ProfileConstant.MEMORY_GBPS, 1.0));

    Prediction combine =
        Plan.of(machine, Requests.ht(1, 1).kind(PlanKind.LL).tokens(100).build()).combine();

    assertThat(combine.micros()).isEqualTo(2 * 100 * 0.256, relative(51));
    assertThat(combine.limit()).isEqualTo(Term.MEMORY);
  }

  @Test
  void smallMessagesMeetTheMessageRate() {
    MachineProfile machine =
        Requests.machine(Map.of(ProfileConstant.NIC_GBPS, 1e4, ProfileConstant.NIC_MMSGS, 0.5));

    Plan plan = Plan.of(machine, Requests.ht(2, 1).kind(PlanKind.LL).tokens(100).topK(2).build());
    assertThat(plan.combine().micros()).isEqualTo(200, relative(200));
  }

  @ParameterizedTest
  @EnumSource(PlanKind.class)
  void moreTokensTakeLongerAndAFasterNicDoesNot(PlanKind kind) {
    Random random = new Random(33);
    for (int i = 0; i < 200; i++) {
      int onNode = 1 << random.nextInt(4);
      int ranks = onNode * (1 + random.nextInt(16));
      int tokens = 1 + random.nextInt(8000);
      Requests request =
          Requests.ht(ranks, onNode)
              .kind(kind)
              .experts(ranks * (1 + random.nextInt(8)))
              .topK(1 + random.nextInt(Math.min(8, ranks)))
              .hidden(128 * (1 + random.nextInt(60)))
              .sms(1 + random.nextInt(100));
      double rate = 1 + 100 * random.nextDouble();
      Map<ProfileConstant, Double> slow =
          Map.of(ProfileConstant.NIC_GBPS, rate, ProfileConstant.KERNEL_US, 10.0);
      Map<ProfileConstant, Double> fast =
          Map.of(ProfileConstant.NIC_GBPS, 2 * rate, ProfileConstant.KERNEL_US, 10.0);
      PlanRequest base = request.tokens(tokens).build();
      PlanRequest twice = request.tokens(2 * tokens).build();

      double time = Plan.of(Requests.machine(slow), base).dispatch().micros();
      assertThat(Plan.of(Requests.machine(slow), twice).dispatch().micros())
          .as("%s", base)
          .isGreaterThan(time);
      assertThat(Plan.of(Requests.machine(fast), base).dispatch().micros())
          .as("%s", base)
          .isLessThanOrEqualTo(time);
    }
  }

  @Test
  void memoryIsThatOfTheCudaEngine() {
    BufferSizes few = PlannedMemory.of(Requests.ht(8, 8).tokens(128).hidden(7168).build());
    BufferSizes many = PlannedMemory.of(Requests.ht(8, 8).tokens(4096).hidden(7168).build());

    // 4096 tokens of each of 8 ranks to one rank.
    assertThat(many.symmetricBytes()).isGreaterThan(8L * 4096 * 14336);
    assertThat(few.symmetricBytes()).isLessThan(many.symmetricBytes() / 4);
  }

  @Test
  void machinesWithFewerSmsOrSmallerNodesAreRefused() {
    MachineProfile machine = Requests.machine(Map.of());

    refused(machine, Requests.ht(2, 2).sms(133).build(), "sms = 133", "1..132 on test");
    refused(machine, Requests.ht(16, 16).build(), "ranks-per-node = 16", "1..8 on test");
  }

  private static void refused(MachineProfile machine, PlanRequest request, String... texts) {
    assertThatThrownBy(() -> Plan.of(machine, request))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PLAN_SHAPE.id())
        .hasMessageContainingAll(texts);
  }

  private static PlanRequest nccl(int ranks, int onNode) {
    return Requests.ht(ranks, onNode).backend(BackendName.NCCL).build();
  }

  private static Offset<Double> relative(double value) {
    return within(value * 2e-3);
  }
}
