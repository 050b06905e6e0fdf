package org.ep4j.plan.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.ep4j.plan.MachineProfile;
import org.ep4j.plan.Operation;
import org.ep4j.plan.PairTraffic;
import org.ep4j.plan.Plan;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;
import org.ep4j.plan.Prediction;
import org.ep4j.plan.ProfileConstant;
import org.ep4j.plan.Requests;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Where one resource is the limit by far, traffic is uniform and rings are without limit, the
 * simulation is the closed form. Each case also compares with the closed form of a machine whose
 * constant is 5 % larger, which must not fit.
 */
class ClosedFormLimitsTest {
  private static final double TOLERANCE = 0.01;
  private static final Rings UNLIMITED = new Rings(0, 0);

  private record Case(String name, PlanRequest request, ProfileConstant constant, double value) {}

  private static List<Case> cases() {
    List<Case> cases = new ArrayList<>();
    PlanRequest between = Requests.ht(16, 4).tokens(4000).topK(4).build();
    PlanRequest grouped = Requests.ht(32, 4).tokens(6000).topK(4).groups(2).build();
    PlanRequest single = Requests.ht(6, 1).tokens(4000).topK(3).build();
    for (PlanRequest request : List.of(between, grouped, single)) {
      String name = request.nodes() + " nodes, " + request.routing().groups() + " groups";
      cases.add(new Case(name, request, ProfileConstant.NIC_GBPS, 1));
      cases.add(new Case(name, request, ProfileConstant.SM_NODE_ROW_US, 1));
      cases.add(new Case(name, request, ProfileConstant.SM_NODE_GBPS, 0.1));
      cases.add(new Case(name, request, ProfileConstant.MEMORY_GBPS, 1));
      cases.add(new Case(name, request, ProfileConstant.KERNEL_US, 9e4));
      if (request.ranksPerNode() > 1) {
        cases.add(new Case(name, request, ProfileConstant.NVLINK_DISPATCH_GBPS, 1));
        cases.add(new Case(name, request, ProfileConstant.NVLINK_COMBINE_GBPS, 1));
        cases.add(new Case(name, request, ProfileConstant.PEER_US, 9e3));
      }
    }
    PlanRequest node = Requests.ht(8, 8).tokens(4000).topK(4).build();
    cases.add(new Case("one node", node, ProfileConstant.NVLINK_DISPATCH_GBPS, 1));
    cases.add(new Case("one node", node, ProfileConstant.NVLINK_COMBINE_GBPS, 1));
    cases.add(new Case("one node", node, ProfileConstant.SM_ROW_US, 1));
    cases.add(new Case("one node", node, ProfileConstant.SM_GBPS, 0.1));
    cases.add(new Case("one node", node, ProfileConstant.SM_COMBINE_GBPS, 0.1));
    cases.add(new Case("one node", node, ProfileConstant.MEMORY_GBPS, 1));
    PlanRequest low = Requests.ht(16, 8).kind(PlanKind.LL).tokens(1000).topK(4).build();
    cases.add(new Case("low latency", low, ProfileConstant.NIC_GBPS, 1));
    cases.add(new Case("low latency", low, ProfileConstant.NIC_MMSGS, 1));
    cases.add(new Case("low latency", low, ProfileConstant.NVLINK_DISPATCH_GBPS, 1));
    cases.add(new Case("low latency", low, ProfileConstant.NVLINK_COMBINE_GBPS, 1));
    cases.add(new Case("low latency", low, ProfileConstant.MEMORY_GBPS, 1));
    cases.add(new Case("low latency", low, ProfileConstant.LL_NIC_US, 9e4));
    cases.add(new Case("low latency", low, ProfileConstant.LL_NVLINK_PEER_US, 9e3));
    return cases;
  }

  @TestFactory
  List<DynamicTest> oneLimitIsTheClosedForm() {
    return cases().stream()
        .map(c -> DynamicTest.dynamicTest(c.name + " " + c.constant.key(), () -> compare(c)))
        .toList();
  }

  private static void compare(Case c) {
    MachineProfile machine = Requests.machine(Map.of(c.constant, c.value));
    MachineProfile wrong = Requests.machine(Map.of(c.constant, 1.05 * c.value));
    Chunks chunks = new Chunks(c.request, PairTraffic.of(c.request));
    boolean combineOnly =
        c.constant == ProfileConstant.NVLINK_COMBINE_GBPS
            || c.constant == ProfileConstant.SM_COMBINE_GBPS;
    boolean dispatchOnly =
        c.constant == ProfileConstant.NVLINK_DISPATCH_GBPS || c.constant == ProfileConstant.SM_GBPS;
    if (!combineOnly) {
      SimulatedOperation found =
          SimulatedPlan.simulate(
              Operation.dispatch(machine, c.request), false, Perturbations.NONE, chunks, UNLIMITED);
      compare(found, machine, wrong, c.request, Plan::dispatch);
    }
    if (!dispatchOnly) {
      SimulatedOperation found =
          SimulatedPlan.simulate(
              Operation.combine(machine, c.request), true, Perturbations.NONE, chunks, UNLIMITED);
      compare(found, machine, wrong, c.request, Plan::combine);
    }
  }

  private static void compare(
      SimulatedOperation found,
      MachineProfile machine,
      MachineProfile wrong,
      PlanRequest request,
      Function<Plan, Prediction> operation) {
    double closed = operation.apply(Plan.of(machine, request)).micros();
    double other = operation.apply(Plan.of(wrong, request)).micros();
    assertThat(found.micros()).isEqualTo(closed, within(TOLERANCE * closed));
    assertThat(Math.abs(found.micros() - other)).isGreaterThan(2 * TOLERANCE * closed);
    assertThat(found.busiestShare()).isLessThanOrEqualTo(1 + 1e-9);
  }

  @Test
  void oneSlotMovesAChunkARoundTrip() {
    // Rank 0 sends 3200 rows to rank 1, 100 chunks: 10 us there, 15 us for the credit.
    PlanRequest request = Requests.ht(2, 1).tokens(3200).topK(2).build();
    MachineProfile machine = Requests.machine(Map.of(ProfileConstant.HOP_US, 10.0));
    Chunks chunks = new Chunks(request, PairTraffic.of(request));
    for (int slots : new int[] {1, 2, 5}) {
      Rings rings = new Rings(slots, 15);
      for (boolean combine : new boolean[] {false, true}) {
        Operation operation =
            combine ? Operation.combine(machine, request) : Operation.dispatch(machine, request);
        double micros =
            SimulatedPlan.simulate(operation, combine, Perturbations.NONE, chunks, rings).micros();
        assertThat(micros)
            .as("%d slots", slots)
            .isEqualTo((100.0 / slots - 1) * 25 + 10, within(0.5));
      }
    }
  }

  /** Whole tokens in chunks of other sizes: the fill of the pipeline changes, nothing else. */
  @Test
  void largerChunksTakeLittleLonger() {
    PlanRequest request = Requests.ht(16, 4).tokens(8000).topK(4).build();
    MachineProfile machine = Requests.machine(Map.of(ProfileConstant.NIC_GBPS, 1.0));
    PairTraffic traffic = PairTraffic.of(request);
    Operation operation = Operation.dispatch(machine, request);
    Chunks few = new Chunks(request, traffic, 5000);
    Chunks many = new Chunks(request, traffic);

    double coarse =
        SimulatedPlan.simulate(operation, false, Perturbations.NONE, few, UNLIMITED).micros();
    double fine =
        SimulatedPlan.simulate(operation, false, Perturbations.NONE, many, UNLIMITED).micros();

    assertThat(few.chunkRows()).isGreaterThan(4 * many.chunkRows());
    assertThat(coarse).isEqualTo(fine, within(0.03 * fine));
  }
}
