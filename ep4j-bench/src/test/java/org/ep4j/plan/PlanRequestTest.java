package org.ep4j.plan;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.EnumMap;
import java.util.Map;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.junit.jupiter.api.Test;

class PlanRequestTest {
  @Test
  void numbersThatDoNotDivideAreRefusedWithTheRemedy() {
    shape(() -> Requests.ht(12, 8).build(), "ranks-per-node = 8", "12 ranks", "whole nodes");
    shape(() -> Requests.ht(8, 8).experts(100).build(), "experts = 100", "8 ranks", "add experts");
    shape(() -> Requests.ht(2, 2).hidden(7000).build(), "hidden = 7000", "128", "pad");
  }

  @Test
  void numbersOutOfRangeAreRefused() {
    shape(() -> Requests.ht(0, 1).build(), "ranks = 0", "1..4096");
    shape(() -> Requests.ht(2, 0).build(), "ranks-per-node = 0");
    shape(() -> Requests.ht(2, 2).tokens(0).build(), "tokens = 0");
    shape(() -> Requests.ht(2, 2).topK(3).build(), "topk = 3", "1..2");
    shape(() -> Requests.ht(2, 2).sms(0).build(), "sms = 0");
    shape(() -> Requests.ht(4, 2).groups(-1).build(), "grouped = -1", "0 or more");
    shape(() -> Requests.ht(4, 2).groups(1).topK(3).build(), "topk = 3", "1..2");
  }

  @Test
  void placementsForOtherRanksOrExpertsAreRefused() {
    ReplicatedPlacement placed = ReplicatedPlacement.of(ExpertPlacement.blocks(9, 4));
    shape(() -> Requests.ht(2, 2).experts(9).placement(placed).build(), "ranks = 2", "4 as in");
    shape(() -> Requests.ht(4, 2).experts(8).placement(placed).build(), "experts = 8", "9 as in");
    shape(
        () -> Requests.ht(4, 2).experts(9).groups(1).placement(placed).build(),
        "experts = 9",
        "2 nodes");
    Requests.ht(4, 2).experts(9).topK(9).placement(placed).build();
  }

  @Test
  void recordingsWithOtherExpertsAreRefused() {
    RecordedRouting recorded = new RecordedRouting(new int[] {0, 7}, 2, 1);
    shape(
        () -> Requests.ht(2, 2).experts(6).topK(2).recorded(recorded).build(),
        "experts = 6",
        "more than 7");
    shape(
        () -> Requests.ht(2, 2).experts(8).topK(3).recorded(recorded).build(),
        "topk = 3",
        "2 as in");
    Requests.ht(2, 2).experts(8).topK(2).recorded(recorded).build();
  }

  @Test
  void profilesWithNonsenseAreRefused() {
    for (ProfileConstant constant : ProfileConstant.values()) {
      for (double value : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY, 1e9}) {
        profile(constants -> constants.put(constant, sourced(value)), constant.key(), "measure");
      }
      profile(constants -> constants.remove(constant), constant.key() + " = missing", "add it");
      profile(
          constants -> constants.computeIfPresent(constant, (_, s) -> unsourced(s)),
          constant.key() + " = without a source");
    }
    profile(c -> c.put(ProfileConstant.SMS, sourced(1.5)), "sms = 1.5", "1 to 1024 SMs");
  }

  private interface Change {
    void apply(Map<ProfileConstant, MachineProfile.Sourced> constants);
  }

  private static void profile(Change change, String... texts) {
    Map<ProfileConstant, MachineProfile.Sourced> constants =
        new EnumMap<>(Requests.constants(Map.of()));
    change.apply(constants);
    refused(
        () -> new MachineProfile("bad", "bad.json", constants), ErrorCode.PROFILE_INVALID, texts);
  }

  private static MachineProfile.Sourced sourced(double value) {
    return new MachineProfile.Sourced(value, "a test");
  }

  private static MachineProfile.Sourced unsourced(MachineProfile.Sourced constant) {
    return new MachineProfile.Sourced(constant.value(), " ");
  }

  private static void shape(ThrowingCallable call, String... texts) {
    refused(call, ErrorCode.PLAN_SHAPE, texts);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String... texts) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContainingAll(texts);
  }
}
