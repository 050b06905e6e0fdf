package org.ep4j.cuda.far;

import java.time.Duration;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Wire;

/**
 * Finds out that nothing is under way on a wire any more, so that what it writes into can be
 * cleared: each rank gives every lane one last add, and waits until those of all others have come.
 * An add takes effect after all that its lane was given before. On all ranks at once, each in a
 * thread that drives all strands meanwhile; nobody gives the wire work before all have ended.
 */
final class FarQuiet {
  private final Wire wire;
  private final int counter;
  private final long wanted;
  private final long deadline;

  /**
   * @param counter of last words; nothing else lets it grow
   * @param time how often the ranks have asked since it was 0, this time included
   */
  FarQuiet(Wire wire, int counter, int time, Duration timeout) {
    this.wire = wire;
    this.counter = counter;
    wanted = (wire.size() - 1L) * wire.config().lanes() * time;
    deadline = System.nanoTime() + timeout.toNanos();
  }

  /** Waits. Empty, or why nobody can say that the wire is quiet. */
  String await() {
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int lane = 0; peer != wire.rank() && lane < wire.config().lanes(); lane++) {
        if (!tell(wire.lane(peer, lane))) {
          return problem();
        }
      }
    }
    while (!allHaveLeft() || wire.counters().get(counter) < wanted) {
      if (!goOn()) {
        return problem();
      }
    }
    return "";
  }

  /** False if the lane has failed, or takes nothing in time. */
  private boolean tell(Lane lane) {
    for (; ; ) {
      long result = lane.add(counter, 1);
      if (result != Lane.BACK_PRESSURED) {
        return result != Lane.FAILED;
      }
      if (!goOn()) {
        return false;
      }
    }
  }

  private boolean allHaveLeft() {
    boolean all = true;
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int lane = 0; peer != wire.rank() && lane < wire.config().lanes(); lane++) {
        all &= wire.lane(peer, lane).flush();
      }
    }
    return all;
  }

  /** Moves everything along; false once that is vain. */
  private boolean goOn() {
    int done = 0;
    for (int strand = 0; strand < wire.config().strands(); strand++) {
      done += wire.poll(strand);
    }
    if (done == 0) {
      Thread.onSpinWait();
    }
    return wire.failedLanes() == 0 && System.nanoTime() - deadline < 0;
  }

  private String problem() {
    for (int peer = 0; peer < wire.size(); peer++) {
      LaneFailure failure = peer == wire.rank() ? null : LaneFailure.of(wire, peer);
      if (failure != null) {
        return "the wire to rank " + peer + " has failed: " + failure;
      }
    }
    return wire.failedLanes() > 0
        ? wire.failedLanes() + " lanes of the wire have failed"
        : "of "
            + wanted
            + " last words of lanes "
            + wire.counters().get(counter)
            + " have come in time";
  }
}
