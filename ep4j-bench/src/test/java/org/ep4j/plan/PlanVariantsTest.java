package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class PlanVariantsTest {
  private static final MachineProfile MACHINE =
      Requests.machine(
          Map.of(
              ProfileConstant.NIC_GBPS, 1.0,
              ProfileConstant.NIC_MMSGS, 1.0,
              ProfileConstant.NVLINK_DISPATCH_GBPS, 5.0,
              ProfileConstant.NVLINK_COMBINE_GBPS, 3.0,
              ProfileConstant.SM_NODE_ROW_US, 0.5,
              ProfileConstant.MEMORY_GBPS, 100.0,
              ProfileConstant.KERNEL_US, 30.0,
              ProfileConstant.LL_NIC_US, 20.0,
              ProfileConstant.LL_NIC_PEER_US, 0.5));

  @Test
  void aPartOfTwiceTheRateHalvesItsTerm() {
    PlanRequest request = Requests.ht(16, 8).tokens(1000).topK(4).experts(32).sms(4).build();
    Plan plan = Plan.of(MACHINE, request);

    Map<Term, PlanVariants.Variant> faster = new PlanVariants(MACHINE, request).faster();

    assertThat(faster).containsOnlyKeys(Term.NVLINK, Term.NIC, Term.SM, Term.MEMORY);
    faster.forEach(
        (part, variant) -> {
          assertThat(term(variant.plan().dispatch(), part))
              .isEqualTo(term(plan.dispatch(), part) / 2, within(1e-9));
          assertThat(term(variant.plan().combine(), part))
              .isEqualTo(term(plan.combine(), part) / 2, within(1e-9));
          assertThat(variant.plan().dispatch().micros()).isLessThan(plan.dispatch().micros());
        });
  }

  /** The rate of messages is the NIC's, too. */
  @Test
  void aNicOfTwiceTheRateSendsTwiceTheMessages() {
    PlanRequest request = Requests.ht(4, 1).kind(PlanKind.LL).tokens(1000).topK(4).build();
    MachineProfile few =
        Requests.machine(Map.of(ProfileConstant.NIC_GBPS, 100.0, ProfileConstant.NIC_MMSGS, 0.5));

    Map<Term, PlanVariants.Variant> faster = new PlanVariants(few, request).faster();

    assertThat(faster).containsOnlyKeys(Term.NIC);
    assertThat(Objects.requireNonNull(faster.get(Term.NIC)).plan().dispatch().micros())
        .isEqualTo(Plan.of(few, request).dispatch().micros() / 2, within(1e-6));
  }

  @Test
  void moreSmsThanAGpuHasArePlannedByNoVariant() {
    PlanRequest many = Requests.ht(8, 8).sms(100).build();
    PlanRequest all = Requests.ht(8, 8).sms(132).build();

    PlanVariants.Variant more = new PlanVariants(MACHINE, many).faster().get(Term.SM);

    assertThat(Objects.requireNonNull(more).request().sms()).isEqualTo(132);
    assertThat(new PlanVariants(MACHINE, all).faster()).doesNotContainKey(Term.SM);
  }

  /** The value of a profile has a limit: no variant claims twice the rate and plans less. */
  @Test
  void aRateThatCannotDoubleIsLeftOut() {
    MachineProfile free = Requests.machine(Map.of());

    assertThat(new PlanVariants(free, Requests.ht(16, 8).sms(132).build()).faster()).isEmpty();
  }

  @Test
  void worldsArePowersOfTwoOverWhichExpertsDivide() {
    PlanRequest request = Requests.ht(16, 8).tokens(1000).topK(4).experts(32).build();

    List<PlanVariants.Variant> worlds = new PlanVariants(MACHINE, request).overRanks(8);

    assertThat(worlds)
        .extracting(world -> world.request().ranks() + " by " + world.request().ranksPerNode())
        .containsExactly("2 by 2", "4 by 4", "8 by 8", "16 by 8", "32 by 8");
    for (PlanVariants.Variant world : worlds) {
      assertThat(world.plan()).isEqualTo(Plan.of(MACHINE, world.request()));
      assertThat(world.request().tokens()).isEqualTo(1000);
    }
  }

  @Test
  void theWorldOfTheRequestIsThereWhateverItsNumberOfRanks() {
    PlanRequest request = Requests.ht(24, 6).topK(1).experts(48).build();

    assertThat(new PlanVariants(MACHINE, request).overRanks(6))
        .extracting(world -> world.request().ranks() + " by " + world.request().ranksPerNode())
        .containsExactly("2 by 2", "4 by 4", "8 by 4", "16 by 4", "24 by 6");
  }

  @Test
  void whatOverlapsAndWhatAddsMakeUpTheTime() {
    PlanRequest request = Requests.ht(16, 8).tokens(1000).topK(4).experts(32).build();
    Prediction dispatch = Plan.of(MACHINE, request).dispatch();

    assertThat(dispatch.overlappedMicros())
        .isEqualTo(HighThroughputModel.overlapped(dispatch.terms()), within(1e-6));
    assertThat(dispatch.path()).containsExactlyInAnyOrder(Term.values());

    PlanRequest few = Requests.ht(16, 8).kind(PlanKind.LL).tokens(100).topK(4).build();
    Prediction slowest = Plan.of(MACHINE, few).dispatch();

    assertThat(slowest.path()).containsExactly(Term.NIC, Term.FIXED, Term.INCAST);
    assertThat(slowest.overlappedMicros()).isEqualTo(term(slowest, Term.NIC), within(1e-6));
  }

  private static double term(Prediction prediction, Term term) {
    return Objects.requireNonNull(prediction.terms().get(term));
  }
}
