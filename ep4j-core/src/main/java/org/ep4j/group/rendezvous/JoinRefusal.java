package org.ep4j.group.rendezvous;

import org.ep4j.group.JoinRefusedException.Reason;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames.Join;
import org.jspecify.annotations.Nullable;

/**
 * Reason for which a rendezvous refuses a client.
 *
 * @param text the values on both sides, and the remedy
 */
record JoinRefusal(Reason reason, String text) {
  /** The refusal that does not depend on other members; null if the request is valid. */
  static @Nullable JoinRefusal of(Join join, GroupPlan plan) {
    int id = join.id();
    if (!plan.job().isEmpty() && !join.job().isEmpty() && !plan.job().equals(join.job())) {
      return new JoinRefusal(
          Reason.ANOTHER_JOB,
          "this rendezvous serves job '%s', the rank belongs to job '%s': give each job its own port"
              .formatted(plan.job(), join.job()));
    }
    if (join.ids() != plan.members()) {
      return new JoinRefusal(
          Reason.WRONG_WORLD_SIZE,
          "rank %d expects a world of %d ranks, this job has %d: correct the world size, or give each"
                  .formatted(id, join.ids(), plan.members())
              + " job its own port");
    }
    if (id < 0 || id >= plan.members()) {
      return new JoinRefusal(
          Reason.RANK_OUT_OF_RANGE,
          "rank %d is not in a world of %d ranks: use 0 to %d"
              .formatted(id, plan.members(), plan.members() - 1));
    }
    if (join.peerPort() < 1 || join.peerPort() > 65_535) {
      return new JoinRefusal(
          Reason.WRONG_PROTOCOL,
          "peer port %d is not a port: run one version of ep4j on all ranks"
              .formatted(join.peerPort()));
    }
    return null;
  }

  static JoinRefusal ended() {
    return new JoinRefusal(Reason.CLOSED, "this group has ended");
  }

  static JoinRefusal departed(int id, @Nullable Departure departure) {
    return new JoinRefusal(
        Reason.DECLARED_DEAD,
        "rank %d is out of this group (%s): start a new process that"
                .formatted(id, departure == null ? "it was declared dead" : departure.report())
            + " calls Group.rejoin");
  }

  static JoinRefusal taken(Join holder, FrameConnection connection) {
    return new JoinRefusal(
        Reason.DUPLICATE_RANK,
        "rank %d is already process %d at %s: start one process per rank, and give each job its"
                .formatted(holder.id(), holder.pid(), connection.remote().getHostString())
            + " own port");
  }

  static JoinRefusal notToObserve() {
    return new JoinRefusal(
        Reason.NOT_FORMED, "the group has not formed yet: ask again once all ranks have joined");
  }

  static JoinRefusal notFormed() {
    return new JoinRefusal(Reason.NOT_FORMED, "the group has not formed yet: call Group.join");
  }

  static JoinRefusal moving() {
    return new JoinRefusal(
        Reason.MOVING, "the group has lost its rendezvous and gathers here: try again");
  }

  static JoinRefusal alive(Join holder, FrameConnection connection) {
    return new JoinRefusal(
        Reason.DUPLICATE_RANK,
        "rank %d is process %d at %s and counts as alive: end that process, or use the number of"
                .formatted(holder.id(), holder.pid(), connection.remote().getHostString())
            + " a departed rank");
  }

  static JoinRefusal neverThere(int id) {
    return new JoinRefusal(
        Reason.RANK_OUT_OF_RANGE,
        "rank %d was not in this group when it formed: use the number of a departed rank"
            .formatted(id));
  }

  static JoinRefusal rejoining(Join rejoining, FrameConnection connection) {
    return new JoinRefusal(
        Reason.PLACE_TAKEN,
        "process %d at %s already waits to be admitted as rank %d: start one process per rank"
            .formatted(rejoining.pid(), connection.remote().getHostString(), rejoining.id()));
  }
}
