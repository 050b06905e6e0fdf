package org.ep4j.group;

import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a group is to be, before anybody is there.
 *
 * @param seats how many there are
 * @param excused seats that nobody waits for
 * @param job name of the job; empty if it has none
 * @param jobId what members call the job
 * @param hostSeat seat of the host of the rendezvous; -1 if it is no rank
 * @param liveness after how much silence a member is declared dead
 * @param incarnations of all seats, if seats keep their numbers as ranks; else null
 */
record GroupPlan(
    int seats,
    BitSet excused,
    String job,
    String jobId,
    int hostSeat,
    Duration liveness,
    @Nullable List<Integer> incarnations) {
  /** A group in which every seat is to be taken. */
  static GroupPlan of(GroupConfig config, int hostSeat, String jobId) {
    return new GroupPlan(
        config.size(), new BitSet(), config.job(), jobId, hostSeat, config.livenessTimeout(), null);
  }

  /** The same without some seats. */
  GroupPlan without(BitSet gone) {
    return new GroupPlan(seats, gone, job, jobId, hostSeat, liveness, incarnations);
  }

  /** The same where seats are ranks, those that nobody takes included. */
  GroupPlan keepingRanks(int[] incarnationsOfAll) {
    List<Integer> all = Arrays.stream(incarnationsOfAll).boxed().toList();
    return new GroupPlan(seats, excused, job, jobId, hostSeat, liveness, all);
  }

  boolean keepsRanks() {
    return incarnations != null;
  }

  /** Of all seats; 0 at first. */
  int[] firstIncarnations() {
    List<Integer> known = incarnations;
    return known == null ? new int[seats] : known.stream().mapToInt(i -> i).toArray();
  }
}
