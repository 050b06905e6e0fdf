package org.ep4j.group;

import org.ep4j.group.Frames.Join;
import org.ep4j.group.JoinRefusedException.Reason;
import org.jspecify.annotations.Nullable;

/**
 * Why a rendezvous does not let a guest in.
 *
 * @param text with the values on both sides, and the remedy
 */
record Refusal(Reason reason, String text) {
  /** What is wrong with a guest whoever else is there; null if nothing is. */
  static @Nullable Refusal of(Join join, GroupPlan plan) {
    int id = join.id();
    if (!plan.job().isEmpty() && !join.job().isEmpty() && !plan.job().equals(join.job())) {
      return new Refusal(
          Reason.ANOTHER_JOB,
          "this rendezvous serves job '%s', you belong to job '%s'; give each job a port of its own"
              .formatted(plan.job(), join.job()));
    }
    if (join.ids() != plan.seats()) {
      return new Refusal(
          Reason.WRONG_WORLD_SIZE,
          "rank %d counts on a world of %d ranks, this job has %d; either its world size is wrong, or"
                  .formatted(id, join.ids(), plan.seats())
              + " it belongs to another job");
    }
    if (id < 0 || id >= plan.seats()) {
      return new Refusal(
          Reason.RANK_OUT_OF_RANGE,
          "rank %d is not in a world of %d ranks: 0 to %d"
              .formatted(id, plan.seats(), plan.seats() - 1));
    }
    if (join.peerPort() < 1 || join.peerPort() > 65_535) {
      return new Refusal(
          Reason.WRONG_PROTOCOL, "your peer port is %d, which is none".formatted(join.peerPort()));
    }
    return null;
  }

  static Refusal ended() {
    return new Refusal(Reason.CLOSED, "this group has ended");
  }

  static Refusal departed(int id, @Nullable Departure departure) {
    return new Refusal(
        Reason.DECLARED_DEAD,
        "rank %d is out of this group and cannot come back: %s; another process that takes its place"
                .formatted(id, departure == null ? "it was declared dead" : departure.report())
            + " calls Group.rejoin");
  }

  static Refusal taken(Join holder, Link link) {
    return new Refusal(
        Reason.DUPLICATE_RANK,
        "rank %d is process %d at %s already; either two processes were started as this rank, or"
                .formatted(holder.id(), holder.pid(), link.remote().getHostString())
            + " another job uses this port");
  }

  static Refusal notFormed() {
    return new Refusal(
        Reason.NOT_FORMED, "the group has not formed yet, so nobody has departed: call Group.join");
  }

  static Refusal moving() {
    return new Refusal(
        Reason.MOVING, "the group is about to meet here, having lost its rendezvous: try again");
  }

  static Refusal alive(Join holder, Link link) {
    return new Refusal(
        Reason.DUPLICATE_RANK,
        "rank %d is process %d at %s and alive, as far as is known: its place can be taken once it"
                .formatted(holder.id(), holder.pid(), link.remote().getHostString())
            + " has ended; end it, or give this process the number of a rank that has departed");
  }

  static Refusal neverThere(int id) {
    return new Refusal(
        Reason.RANK_OUT_OF_RANGE,
        "rank %d was not in this group when it formed, so it cannot come back".formatted(id));
  }

  static Refusal claimed(Join claimant, Link link) {
    return new Refusal(
        Reason.CLAIMED,
        "process %d at %s already waits to be admitted as rank %d: start one process a rank"
            .formatted(claimant.pid(), link.remote().getHostString(), claimant.id()));
  }
}
