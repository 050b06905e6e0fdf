package org.ep4j.group.rendezvous;

import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.ep4j.group.GroupConfig;
import org.jspecify.annotations.Nullable;

/**
 * The plan of a group before any member exists.
 *
 * @param members number of members
 * @param exempt indices that are not waited for
 * @param job name of the job; empty for none
 * @param jobId name of the job among members
 * @param hostIndex index of the host of the rendezvous; -1 if the host is not a rank
 * @param liveness silence after which a member is declared dead
 * @param incarnations of all indices, if indices stay ranks; otherwise null
 */
record GroupPlan(
    int members,
    BitSet exempt,
    String job,
    String jobId,
    int hostIndex,
    Duration liveness,
    @Nullable List<Integer> incarnations) {
  /** Hosts are busy with the start of JVMs while a group forms. */
  private static final Duration SHORTEST_FORMING_LIVENESS = Duration.ofSeconds(10);

  /**
   * Silence after which a rank or a rendezvous is declared dead while ranks wait for others.
   *
   * @param liveness the same in the group, which heartbeats and longer pauses may need
   */
  static Duration whileForming(Duration liveness) {
    return liveness.compareTo(SHORTEST_FORMING_LIVENESS) > 0 ? liveness : SHORTEST_FORMING_LIVENESS;
  }

  /** A group in which every index must be occupied. */
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

  /** The same plan with more exempt indices. */
  GroupPlan without(BitSet gone) {
    return new GroupPlan(members, gone, job, jobId, hostIndex, liveness, incarnations);
  }

  /** The same plan with indices that stay ranks, exempt ones included. */
  GroupPlan keepingRanks(int[] incarnationsOfAll) {
    List<Integer> all = Arrays.stream(incarnationsOfAll).boxed().toList();
    return new GroupPlan(members, exempt, job, jobId, hostIndex, liveness, all);
  }

  /** Number of ranks, as far as it is known before the group forms. */
  int ranks() {
    return keepsRanks() ? members : members - exempt.cardinality();
  }

  boolean keepsRanks() {
    return incarnations != null;
  }

  /** Of all indices; initially 0. */
  int[] firstIncarnations() {
    List<Integer> known = incarnations;
    return known == null ? new int[members] : known.stream().mapToInt(i -> i).toArray();
  }
}
