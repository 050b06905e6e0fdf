package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class ProfileFitTest {
  private static final MachineProfile BASE =
      Requests.machine(
          Map.of(
              ProfileConstant.NVLINK_DISPATCH_GBPS, 100.0,
              ProfileConstant.NVLINK_COMBINE_GBPS, 100.0,
              ProfileConstant.SM_GBPS, 10.0,
              ProfileConstant.SM_COMBINE_GBPS, 10.0,
              ProfileConstant.SM_ROW_US, 0.01,
              ProfileConstant.KERNEL_US, 10.0,
              ProfileConstant.MEMORY_GBPS, 4000.0,
              ProfileConstant.HOP_US, 2.0));

  static IntStream seeds() {
    return IntStream.range(0, 20);
  }

  @ParameterizedTest
  @MethodSource("seeds")
  void constantsOfAMachineAreFoundAgain(int seed) {
    Random random = new Random(seed);
    Map<ProfileConstant, Double> machine =
        Map.of(
            ProfileConstant.NVLINK_DISPATCH_GBPS, random.nextDouble(50, 900),
            ProfileConstant.NVLINK_COMBINE_GBPS, random.nextDouble(50, 900),
            ProfileConstant.SM_GBPS, random.nextDouble(5, 100),
            ProfileConstant.SM_COMBINE_GBPS, random.nextDouble(5, 100),
            ProfileConstant.SM_ROW_US, random.nextDouble(0.02, 0.3),
            ProfileConstant.KERNEL_US, random.nextDouble(2, 60),
            ProfileConstant.MEMORY_GBPS, 4000.0,
            ProfileConstant.HOP_US, 2.0);
    MachineProfile real = Requests.machine(machine);

    MachineProfile found = ProfileFit.of(BASE, rows(real), "a test");

    for (ProfileConstant constant : machine.keySet()) {
      double value = real.value(constant);
      assertThat(found.value(constant)).as("%s", constant).isEqualTo(value, within(value / 100));
    }
    assertThat(found.value(ProfileConstant.CALL_US)).isEqualTo(7);
    assertThat(ProfileFit.predict(found, rows(real))).allMatch(one -> Math.abs(one.error()) < 0.01);
  }

  /** All shapes of a measured table, on two ranks. */
  private static List<ProfileFit.Row> rows(MachineProfile machine) {
    List<ProfileFit.Row> rows = new ArrayList<>();
    for (int tokens : new int[] {256, 4096}) {
      for (int hidden : new int[] {2048, 7168}) {
        for (PlanDType dtype : PlanDType.values()) {
          for (int sms : new int[] {4, 16, 64}) {
            add(rows, machine, shape(tokens, hidden, sms).dtype(dtype).build());
          }
        }
      }
    }
    return rows;
  }

  private static Requests shape(int tokens, int hidden, int sms) {
    return Requests.ht(2, 2).tokens(tokens).hidden(hidden).topK(8).experts(256).sms(sms);
  }

  private static void add(List<ProfileFit.Row> rows, MachineProfile machine, PlanRequest request) {
    Plan plan = Plan.of(machine, request);
    double dispatch = plan.dispatch().micros();
    double combine = plan.combine().micros();
    rows.add(new ProfileFit.Row(request, false, dispatch, dispatch + 7));
    rows.add(new ProfileFit.Row(request, true, combine, combine + 7));
  }

  @Test
  void constantsThatNoRowDependsOnStay() {
    MachineProfile real = Requests.machine(Map.of(ProfileConstant.KERNEL_US, 33.0));
    List<ProfileFit.Row> rows = new ArrayList<>();
    add(rows, real, shape(512, 7168, 24).routing(RoutingKind.HOT).build());
    add(rows, real, shape(4096, 7168, 24).routing(RoutingKind.HOT).build());

    MachineProfile found = ProfileFit.of(BASE, rows, "a test");

    assertThat(found.source(ProfileConstant.KERNEL_US)).isEqualTo("a test");
    for (ProfileConstant kept :
        List.of(
            ProfileConstant.SM_GBPS,
            ProfileConstant.SM_COMBINE_GBPS,
            ProfileConstant.SM_ROW_US,
            ProfileConstant.NIC_GBPS,
            ProfileConstant.LL_NVLINK_US)) {
      assertThat(found.value(kept)).as("%s", kept).isEqualTo(BASE.value(kept));
    }
  }

  /** An FP8 dispatch and its combine differ in bytes, but have rates of their own. */
  @Test
  void aDispatchAndItsCombineDetermineNothingThatTheyShare() {
    MachineProfile real =
        Requests.machine(Map.of(ProfileConstant.KERNEL_US, 33.0, ProfileConstant.SM_ROW_US, 0.2));
    List<ProfileFit.Row> rows = new ArrayList<>();
    for (int sms : new int[] {8, 24, 64}) {
      add(rows, real, shape(4096, 7168, sms).dtype(PlanDType.FP8).build());
    }

    MachineProfile found = ProfileFit.of(BASE, rows, "a test");

    assertThat(found.source(ProfileConstant.SM_GBPS)).isEqualTo("a test");
    for (ProfileConstant kept : List.of(ProfileConstant.KERNEL_US, ProfileConstant.SM_ROW_US)) {
      assertThat(found.value(kept)).as("%s", kept).isEqualTo(BASE.value(kept));
    }
  }

  @ParameterizedTest
  @EnumSource(PlanDType.class)
  void rowsThatAreAllAlikeAreRefused(PlanDType dtype) {
    List<ProfileFit.Row> rows = new ArrayList<>();
    add(rows, BASE, shape(512, 7168, 24).dtype(dtype).build());
    add(rows, BASE, shape(512, 7168, 24).dtype(dtype).build());

    assertThatThrownBy(() -> ProfileFit.of(BASE, rows, "a test"))
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> assertThat(e.errorCode()).isEqualTo(ErrorCode.PLAN_MEASUREMENTS))
        .hasMessageContaining("--sms");
  }
}
