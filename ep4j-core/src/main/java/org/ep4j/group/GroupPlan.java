package org.ep4j.group;

import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a group is to be, before anybody is there.
 *
 * @param members how many there are
 * @param exempt seats that nobody waits for
 * @param job name of the job; empty if it has none
 * @param jobId what members call the job
 * @param hostIndex seat of the host of the rendezvous; -1 if it is no rank
 * @param liveness after how much silence a member is declared dead
 * @param incarnations of all seats, if seats keep their numbers as ranks; else null
 */
record GroupPlan(
    int members,
    BitSet exempt,
    String job,
    String jobId,
    int hostIndex,
    Duration liveness,
    @Nullable List<Integer> incarnations) {
  /** A group in which every seat is to be taken. */
  static GroupPlan of(GroupConfig config, int hostIndex, String jobId) {
    return new GroupPlan(
        config.size(),
        new BitSet(),
        config.job(),
        jobId,
        hostIndex,
        config.livenessTimeout(),
        null);
  }

  /** The same without some seats. */
  GroupPlan without(BitSet gone) {
    return new GroupPlan(members, gone, job, jobId, hostIndex, liveness, incarnations);
  }

  /** The same where seats are ranks, those that nobody takes included. */
  GroupPlan keepingRanks(int[] incarnationsOfAll) {
    List<Integer> all = Arrays.stream(incarnationsOfAll).boxed().toList();
    return new GroupPlan(members, exempt, job, jobId, hostIndex, liveness, all);
  }

  boolean keepsRanks() {
    return incarnations != null;
  }

  /** Of all seats; 0 at first. */
  int[] firstIncarnations() {
    List<Integer> known = incarnations;
    return known == null ? new int[members] : known.stream().mapToInt(i -> i).toArray();
  }
}
