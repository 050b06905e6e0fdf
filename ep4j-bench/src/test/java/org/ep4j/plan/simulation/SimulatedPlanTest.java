package org.ep4j.plan.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.DoubleFunction;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Operation;
import org.ep4j.plan.PairTraffic;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.RankTraffic;
import org.ep4j.plan.RecordedRouting;
import org.ep4j.plan.Requests;
import org.ep4j.plan.Traffic;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.api.Test;

class SimulatedPlanTest {
  /** A machine on which several things matter, like h100-cx7. */
  private static final MachineProfile MACHINE =
      Requests.machine(
          Map.of(
              ProfileConstant.NIC_GBPS, 24.0,
              ProfileConstant.NIC_PORTS, 2.0,
              ProfileConstant.NVLINK_DISPATCH_GBPS, 375.0,
              ProfileConstant.NVLINK_COMBINE_GBPS, 270.0,
              ProfileConstant.SM_NODE_ROW_US, 0.33,
              ProfileConstant.SM_ROW_US, 0.05,
              ProfileConstant.MEMORY_GBPS, 2700.0,
              ProfileConstant.HOP_US, 2.0,
              ProfileConstant.KERNEL_US, 30.0,
              ProfileConstant.LL_NIC_US, 27.0));

  private static final List<PlanRequest> REQUESTS =
      List.of(
          full(16, 4).build(),
          full(32, 4).groups(2).build(),
          full(16, 4).routing(RoutingKind.ZIPF).build(),
          full(8, 8).routing(RoutingKind.HOT).build(),
          full(16, 4).kind(PlanKind.LL).tokens(128).build(),
          full(16, 4).kind(PlanKind.LL).tokens(128).routing(RoutingKind.ZIPF).build(),
          full(6, 1).experts(30).build(),
          sparse(),
          full(1, 1).build());

  private static Requests full(int ranks, int onNode) {
    return Requests.ht(ranks, onNode).tokens(256).hidden(7168).topK(4).experts(32).sms(24);
  }

  /** Two ranks of 16 receive rows, of few tokens each. */
  private static PlanRequest sparse() {
    int[] experts = new int[2 * 16 * 20];
    for (int token = 0; token < experts.length / 2; token++) {
      experts[2 * token] = 10;
      experts[2 * token + 1] = token % 3 == 0 ? 26 : -1;
    }
    int[] parts = new int[16];
    Arrays.fill(parts, 20);
    return full(16, 4).tokens(20).topK(2).recorded(new RecordedRouting(experts, 2, parts)).build();
  }

  /** What each resource has served is what the traffic of its rank says, in both directions. */
  @Test
  void everyRowPassesItsResources() {
    for (PlanRequest request : REQUESTS) {
      List<RankTraffic> ranks = Traffic.of(request).ranks();
      Chunks chunks = new Chunks(request, PairTraffic.of(request));
      boolean between = request.nodes() > 1;
      for (boolean combine : new boolean[] {false, true}) {
        Operation operation =
            combine ? Operation.combine(MACHINE, request) : Operation.dispatch(MACHINE, request);
        Servers servers = new Servers(operation, Perturbations.NONE);
        SimulatedPlan.run(operation, combine, servers, chunks, new Rings(1, 5));
        for (int rank = 0; rank < ranks.size(); rank++) {
          RankTraffic traffic = ranks.get(rank);
          Map<Resource, Double> rows =
              Map.of(
                  Resource.NVLINK_OUT, traffic.nvlinkOut(),
                  Resource.NVLINK_IN, traffic.nvlinkIn(),
                  Resource.NIC_OUT, traffic.nicOut(),
                  Resource.NIC_IN, traffic.nicIn(),
                  Resource.MEMORY_OUT, traffic.sent(),
                  Resource.MEMORY_IN, traffic.received(),
                  Resource.SM_OUT, between ? traffic.nodeRows() : traffic.sent(),
                  Resource.SM_IN, between ? traffic.nodeRowsIn() : traffic.received());
          for (Resource resource : Resource.values()) {
            // A combine: out and in are exchanged.
            Resource passed = combine ? Resource.values()[resource.ordinal() ^ 1] : resource;
            double expected = servers.micros(resource, rank, row(rows, passed));
            assertThat(servers.busyMicros(resource, rank))
                .as("%s of rank %d, combine %s, %s", resource, rank, combine, request)
                .isEqualTo(expected, within(1e-6 * expected + 1e-9));
          }
        }
      }
    }
  }

  private static double row(Map<Resource, Double> rows, Resource resource) {
    return Objects.requireNonNull(rows.get(resource));
  }

  @Test
  void allRowsArrive() {
    for (PlanRequest request : REQUESTS) {
      double rows = Traffic.of(request).ranks().stream().mapToDouble(RankTraffic::received).sum();
      int rank = request.ranks() - 1;
      for (Perturbations perturbations : List.of(Perturbations.NONE, late(rank, 500))) {
        SimulatedPlan plan = SimulatedPlan.of(MACHINE, request, perturbations);
        assertThat(plan.dispatch().rows()).as("%s", request).isEqualTo(rows, within(1e-6 * rows));
        assertThat(plan.combine().rows()).as("%s", request).isEqualTo(rows, within(1e-6 * rows));
      }
    }
  }

  @Test
  void theSameRequestHasTheSameResult() {
    for (PlanRequest request : REQUESTS) {
      Perturbations late = late(0, 100);
      SimulatedPlan first = SimulatedPlan.of(MACHINE, request, late);
      SimulatedPlan again = SimulatedPlan.of(MACHINE, request, late);
      assertThat(again.dispatch().micros()).isEqualTo(first.dispatch().micros());
      assertThat(again.combine().micros()).isEqualTo(first.combine().micros());
      assertThat(again.dispatch().events()).isEqualTo(first.dispatch().events());
      assertThat(again.combine().events()).isEqualTo(first.combine().events());
    }
  }

  @Test
  void noOperationEndsBeforeItsBusiestResource() {
    for (PlanRequest request : REQUESTS) {
      SimulatedPlan plan = SimulatedPlan.of(MACHINE, request, Perturbations.NONE);
      Plan closed = Plan.of(MACHINE, request);
      for (SimulatedOperation found : List.of(plan.dispatch(), plan.combine())) {
        assertThat(found.busiestShare()).as("%s", request).isBetween(0.01, 1 + 1e-9);
      }
      // The closed form adds a quarter where terms are equal, and skew leaves gaps.
      assertThat(plan.dispatch().micros() / closed.dispatch().micros())
          .as("%s", request)
          .isBetween(0.7, 1.4);
      assertThat(plan.combine().micros() / closed.combine().micros())
          .as("%s", request)
          .isBetween(0.7, 1.4);
    }
  }

  @Test
  void moreDisturbanceTakesLonger() {
    monotone(late -> late(1, late), 0, 1, 10, 100, 10_000);
    monotone(factor -> slowRank(1, factor), 1, 1.5, 2, 5, 100);
    monotone(share -> slowNic(1, 1 / share), 1, 1.2, 2, 5, 50);
  }

  private static void monotone(DoubleFunction<Perturbations> perturbation, double... values) {
    List<PlanRequest> requests =
        List.of(
            full(16, 4).build(),
            full(16, 4).groups(2).routing(RoutingKind.ZIPF).build(),
            full(16, 4).kind(PlanKind.LL).tokens(128).build());
    for (PlanRequest request : requests) {
      Chunks chunks = new Chunks(request, PairTraffic.of(request));
      for (boolean combine : new boolean[] {false, true}) {
        double alike = micros(request, chunks, combine, Perturbations.NONE);
        double before = alike;
        for (double value : values) {
          double now = micros(request, chunks, combine, perturbation.apply(value));
          assertThat(now)
              .as("combine %s, %s: %s", combine, request, value)
              .isGreaterThanOrEqualTo(before * (1 - SLACK));
          before = now;
        }
        assertThat(before).isGreaterThan(1.5 * alike);
      }
    }
  }

  private static double micros(
      PlanRequest request, Chunks chunks, boolean combine, Perturbations perturbations) {
    Operation operation =
        combine ? Operation.combine(MACHINE, request) : Operation.dispatch(MACHINE, request);
    return SimulatedPlan.simulate(operation, combine, perturbations, chunks, new Rings(8, 2))
        .micros();
  }

  /** Chunks that arrive in another order meet in other queues: 1 % is no contradiction. */
  private static final double SLACK = 0.01;

  @Test
  void aLateRankDelaysTheEndByAsMuch() {
    PlanRequest request = full(16, 4).build();
    SimulatedPlan alike = SimulatedPlan.of(MACHINE, request, Perturbations.NONE);
    SimulatedPlan late = SimulatedPlan.of(MACHINE, request, late(3, 50_000));

    // It has its own rows to send, alone: as long as before, less what others add.
    assertThat(late.dispatch().micros() - 50_000)
        .isBetween(0.5 * alike.dispatch().micros(), 1.01 * alike.dispatch().micros());
    assertThat(late.combine().micros() - 50_000)
        .isBetween(0.1 * alike.combine().micros(), 1.01 * alike.combine().micros());
  }

  @Test
  void aNicWithHalfItsRateTakesTwiceAsLongAndIsNamed() {
    MachineProfile machine =
        Requests.machine(Map.of(ProfileConstant.NIC_GBPS, 1.0, ProfileConstant.NIC_PORTS, 2.0));
    PlanRequest request = Requests.ht(16, 4).tokens(20_000).topK(4).build();
    SimulatedPlan alike = SimulatedPlan.of(machine, request, Perturbations.NONE);
    SimulatedPlan half = SimulatedPlan.of(machine, request, slowNic(5, 0.5));
    SimulatedPlan port =
        SimulatedPlan.of(
            machine, request, new Perturbations(Map.of(), Map.of(), Map.of(), Map.of(5, 1)));

    double twice = 2 * alike.dispatch().micros();
    assertThat(half.dispatch().micros()).isEqualTo(twice, within(0.02 * twice));
    assertThat(half.dispatch().busiestRank()).isEqualTo(5);
    assertThat(half.dispatch().busiest()).isIn(Resource.NIC_IN, Resource.NIC_OUT);
    assertThat(port.dispatch().micros()).isEqualTo(half.dispatch().micros());
    assertThat(port.combine().micros()).isEqualTo(half.combine().micros());
  }

  @Test
  void ranksOfUniformTrafficCanBeRelabelled() {
    for (PlanKind kind : PlanKind.values()) {
      PlanRequest request = full(16, 4).kind(kind).tokens(256).build();
      SimulatedPlan first = SimulatedPlan.of(MACHINE, request, slowNic(0, 0.5));
      for (int rank = 1; rank < 16; rank++) {
        SimulatedPlan other = SimulatedPlan.of(MACHINE, request, slowNic(rank, 0.5));
        double dispatch = first.dispatch().micros();
        double combine = first.combine().micros();
        assertThat(other.dispatch().micros()).isEqualTo(dispatch, within(0.005 * dispatch));
        assertThat(other.combine().micros()).isEqualTo(combine, within(0.005 * combine));
      }
    }
  }

  @Test
  void nonsenseIsRefused() {
    PlanRequest request = full(16, 4).build();
    refused(() -> late(0, -1), "late of rank 0 = -1", "0..10000000 us");
    refused(() -> late(0, Double.NaN), "late of rank 0 = NaN");
    refused(() -> slowRank(2, 0.5), "slow-rank of rank 2 = 0.5", "1..1000");
    refused(() -> slowNic(2, 0), "slow-nic of rank 2 = 0", "0.001..1");
    refused(() -> slowNic(2, 2), "slow-nic of rank 2 = 2");
    refused(() -> SimulatedPlan.of(MACHINE, request, late(16, 1)), "late: rank = 16", "0..15");
    refused(() -> SimulatedPlan.of(MACHINE, request, slowRank(-1, 2)), "slow-rank: rank = -1");
    refused(
        () -> SimulatedPlan.of(MACHINE, full(8, 8).build(), slowNic(0, 0.5)),
        "slow-nic",
        "no row crosses a NIC");
    refused(
        () ->
            SimulatedPlan.of(
                MACHINE, request, new Perturbations(Map.of(), Map.of(), Map.of(), Map.of(0, 2))),
        "lost-port of rank 0 = 2",
        "less than the 2 of test");
  }

  private static void refused(Runnable action, String... texts) {
    assertThatThrownBy(action::run)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PLAN_PERTURBATION.id())
        .hasMessageContainingAll(texts);
  }

  private static Perturbations late(int rank, double micros) {
    return new Perturbations(Map.of(rank, micros), Map.of(), Map.of(), Map.of());
  }

  private static Perturbations slowRank(int rank, double factor) {
    return new Perturbations(Map.of(), Map.of(rank, factor), Map.of(), Map.of());
  }

  private static Perturbations slowNic(int rank, double share) {
    return new Perturbations(Map.of(), Map.of(), Map.of(rank, share), Map.of());
  }
}
