package org.ep4j.cuda.internode;

import java.time.Duration;
import org.ep4j.engine.Interrupts;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * Determines that nothing is in flight on a wire, so that its target memory can be cleared: each
 * rank gives every lane one last add and waits for the adds of all others. An add takes effect
 * after all earlier work of its lane. Lanes to dead ranks deliver no last add; they must fail,
 * after which nothing arrives on a wire that {@link Wire#severs}.
 *
 * <p>Runs on all survivors at once, each in a thread that drives all progress contexts; the wire
 * gets no other work before all have ended. Survivors may run several rounds, for example if a rank
 * dies during one: each round has a number that is equal on all ranks and higher than any before.
 *
 * <p>One counter per peer holds its last adds: only that peer increments it, to the number of lanes
 * times the round number, whatever it had added before it aborted an earlier round. Therefore the
 * counter is never cleared and shows how many adds of this round are missing, even if ranks aborted
 * at different times.
 */
final class InternodeQuiesce {
  private final Wire wire;
  private final int counter;
  private final int lanes;

  /** By peer and lane: the sum of the last adds. */
  private final long[] sent;

  /**
   * @param counter counter of rank 0; those of the other ranks follow
   */
  InternodeQuiesce(Wire wire, int counter) {
    this.wire = wire;
    this.counter = counter;
    lanes = wire.config().lanes();
    sent = new long[wire.size() * lanes];
  }

  /**
   * Waits. Returns empty, or why the wire is not known to be idle.
   *
   * @param missing ranks that take no part, the same on all others
   * @param gone those whose lanes must have failed
   * @param time number of the round
   */
  String await(boolean[] missing, boolean[] gone, long time, Duration timeout) {
    long deadline = System.nanoTime() + timeout.toNanos();
    boolean[] counts = new boolean[wire.size()];
    for (int peer = 0; peer < counts.length; peer++) {
      counts[peer] = peer != wire.rank() && !missing[peer];
    }
    boolean progressing = true;
    for (int peer = 0; progressing && peer < counts.length; peer++) {
      for (int lane = 0; progressing && counts[peer] && lane < lanes; lane++) {
        progressing = sendLastWord(peer, lane, time, counts, deadline);
      }
    }
    while (progressing && !isQuiescent(gone, counts, time)) {
      progressing = progress(counts, deadline);
    }
    return progressing ? "" : problem(gone, counts, time);
  }

  /** False if a lane to a live rank has failed or does not accept the add in time. */
  private boolean sendLastWord(int peer, int lane, long time, boolean[] counts, long deadline) {
    int at = peer * lanes + lane;
    while (sent[at] < time) {
      long result = wire.lane(peer, lane).add(counter + wire.rank(), time - sent[at]);
      if (result == Lane.FAILED) {
        return false;
      }
      if (result != Lane.BACK_PRESSURED) {
        sent[at] = time;
      } else if (!progress(counts, deadline)) {
        return false;
      }
    }
    return true;
  }

  private boolean isQuiescent(boolean[] gone, boolean[] counts, long time) {
    boolean quiesce = true;
    for (int peer = 0; peer < counts.length; peer++) {
      quiesce &= !counts[peer] || wire.counters().get(counter + peer) >= lanes * time;
      for (int lane = 0; peer != wire.rank() && lane < lanes; lane++) {
        Lane its = wire.lane(peer, lane);
        quiesce &= counts[peer] ? its.flush() : !gone[peer] || its.failure() != null;
      }
    }
    return quiesce;
  }

  /** Drives the wire; false if a lane has failed, at the deadline, or after an interrupt. */
  private boolean progress(boolean[] counts, long deadline) {
    int done = 0;
    for (int progressContext = 0;
        progressContext < wire.config().progressContexts();
        progressContext++) {
      done += wire.poll(progressContext);
    }
    if (done == 0) {
      Thread.onSpinWait();
    }
    return (wire.failedLanes() == 0 || failed(counts) == null)
        && System.nanoTime() - deadline < 0
        && !Interrupts.pending();
  }

  /** The failure of a lane to a live rank; null if none has failed. */
  private @Nullable LaneFailure failed(boolean[] counts) {
    for (int peer = 0; peer < counts.length; peer++) {
      for (int lane = 0; counts[peer] && lane < lanes; lane++) {
        LaneFailure failure = wire.lane(peer, lane).failure();
        if (failure != null) {
          return failure;
        }
      }
    }
    return null;
  }

  private String problem(boolean[] gone, boolean[] counts, long time) {
    LaneFailure failure = failed(counts);
    if (failure != null) {
      return "the wire to rank " + failure.peer() + " has failed: " + failure;
    }
    if (Interrupts.pending()) {
      return "the thread of rank " + wire.rank() + " was interrupted";
    }
    for (int peer = 0; peer < counts.length; peer++) {
      long missing = lanes * time - wire.counters().get(counter + peer);
      if (counts[peer] && missing > 0) {
        return missing
            + " of "
            + lanes * time
            + " final adds of rank "
            + peer
            + " did not arrive in time";
      }
      for (int lane = 0; gone[peer] && lane < lanes; lane++) {
        if (wire.lane(peer, lane).failure() == null) {
          return "lane " + lane + " to dead rank " + peer + " did not end in time";
        }
      }
    }
    return "queued work of lanes was not sent in time";
  }
}
