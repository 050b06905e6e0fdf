package org.ep4j.wire;

import org.ep4j.observe.LaneLossEvent;
import org.ep4j.wire.LaneFailure.Cause;

/**
 * Records each lane of a wire that fails, once. A peer that closes its wire loses none, and a lane
 * that had failed at the start is none. Any thread.
 */
public final class LaneLosses {
  private final int rank;
  private final String wire;
  private final Lane[][] lanes;

  /** Lanes that are recorded or had failed at the start, as {@link #lanes}. Guarded by this. */
  private final boolean[][] known;

  /**
   * @param rank number of this rank in the events
   * @param wire name of the wire
   * @param lanes by peer, with the number that it has in the events; empty for other ranks
   */
  public LaneLosses(int rank, String wire, Lane[][] lanes) {
    this.rank = rank;
    this.wire = wire;
    this.lanes = lanes;
    known = new boolean[lanes.length][];
    for (int peer = 0; peer < lanes.length; peer++) {
      known[peer] = new boolean[lanes[peer].length];
      for (int lane = 0; lane < lanes[peer].length; lane++) {
        known[peer][lane] = lanes[peer][lane].failure() != null;
      }
    }
  }

  /** Records the losses of all lanes of {@code wire}. */
  public static LaneLosses of(Wire wire) {
    Lane[][] lanes = new Lane[wire.size()][];
    for (int peer = 0; peer < lanes.length; peer++) {
      lanes[peer] = new Lane[peer == wire.rank() ? 0 : wire.config().lanes()];
      for (int lane = 0; lane < lanes[peer].length; lane++) {
        lanes[peer][lane] = wire.lane(peer, lane);
      }
    }
    return new LaneLosses(wire.rank(), wire.name(), lanes);
  }

  /** Records the lanes that have failed since the last call. */
  public synchronized void record() {
    for (int peer = 0; peer < lanes.length; peer++) {
      for (int lane = 0; lane < lanes[peer].length; lane++) {
        LaneFailure failure = lanes[peer][lane].failure();
        if (failure != null && failure.cause() != Cause.CLOSED && !known[peer][lane]) {
          known[peer][lane] = true;
          LaneLossEvent.record(rank, peer, wire, lane, failure.cause() + ": " + failure.text());
        }
      }
    }
  }
}
