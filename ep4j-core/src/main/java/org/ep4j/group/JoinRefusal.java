package org.ep4j.group;

import org.ep4j.group.Frames.Join;
import org.ep4j.group.JoinRefusedException.Reason;
import org.jspecify.annotations.Nullable;

/**
 * Why a rendezvous does not let a guest in.
 *
 * @param text with the values on both sides, and the remedy
 */
record JoinRefusal(Reason reason, String text) {
  /** What is wrong with a guest whoever else is there; null if nothing is. */
  static @Nullable JoinRefusal of(Join join, GroupPlan plan) {
    int id = join.id();
    if (!plan.job().isEmpty() && !join.job().isEmpty() && !plan.job().equals(join.job())) {
      return new JoinRefusal(
          Reason.ANOTHER_JOB,
          "this rendezvous serves job '%s', you belong to job '%s'; give each job a port of its own"
              .formatted(plan.job(), join.job()));
    }
    if (join.ids() != plan.members()) {
      return new JoinRefusal(
          Reason.WRONG_WORLD_SIZE,
          "rank %d counts on a world of %d ranks, this job has %d; either its world size is wrong, or"
                  .formatted(id, join.ids(), plan.members())
              + " it belongs to another job");
    }
    if (id < 0 || id >= plan.members()) {
      return new JoinRefusal(
          Reason.RANK_OUT_OF_RANGE,
          "rank %d is not in a world of %d ranks: 0 to %d"
              .formatted(id, plan.members(), plan.members() - 1));
    }
    if (join.peerPort() < 1 || join.peerPort() > 65_535) {
      return new JoinRefusal(
          Reason.WRONG_PROTOCOL, "your peer port is %d, which is none".formatted(join.peerPort()));
    }
    return null;
  }

  static JoinRefusal ended() {
    return new JoinRefusal(Reason.CLOSED, "this group has ended");
  }

  static JoinRefusal departed(int id, @Nullable Departure departure) {
    return new JoinRefusal(
        Reason.DECLARED_DEAD,
        "rank %d is out of this group and cannot come back: %s; another process that takes its place"
                .formatted(id, departure == null ? "it was declared dead" : departure.report())
            + " calls Group.rejoin");
  }

  static JoinRefusal taken(Join holder, FrameConnection connection) {
    return new JoinRefusal(
        Reason.DUPLICATE_RANK,
        "rank %d is process %d at %s already; either two processes were started as this rank, or"
                .formatted(holder.id(), holder.pid(), connection.remote().getHostString())
            + " another job uses this port");
  }

  static JoinRefusal notFormed() {
    return new JoinRefusal(
        Reason.NOT_FORMED, "the group has not formed yet, so nobody has departed: call Group.join");
  }

  static JoinRefusal moving() {
    return new JoinRefusal(
        Reason.MOVING, "the group is about to meet here, having lost its rendezvous: try again");
  }

  static JoinRefusal alive(Join holder, FrameConnection connection) {
    return new JoinRefusal(
        Reason.DUPLICATE_RANK,
        "rank %d is process %d at %s and alive, as far as is known: its place can be taken once it"
                .formatted(holder.id(), holder.pid(), connection.remote().getHostString())
            + " has ended; end it, or give this process the number of a rank that has departed");
  }

  static JoinRefusal neverThere(int id) {
    return new JoinRefusal(
        Reason.RANK_OUT_OF_RANGE,
        "rank %d was not in this group when it formed, so it cannot come back".formatted(id));
  }

  static JoinRefusal rejoining(Join rejoining, FrameConnection connection) {
    return new JoinRefusal(
        Reason.PLACE_TAKEN,
        "process %d at %s already waits to be admitted as rank %d: start one process a rank"
            .formatted(rejoining.pid(), connection.remote().getHostString(), rejoining.id()));
  }
}
