package org.ep4j.wire;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The failure of a lane.
 *
 * @param peer the peer of the lane
 * @param lane index of the lane
 * @param cause kind of failure
 * @param text description for people
 * @param delivered work up to this number has taken effect at the peer
 * @param accepted work after {@code delivered} up to this number may be lost: it may have taken
 *     effect completely, partly or not at all, but counters have counted only complete puts
 */
public record LaneFailure(
    int peer, int lane, Cause cause, String text, long delivered, long accepted) {
  /** Kinds of failure. */
  public enum Cause {
    /** The peer has closed its wire. */
    CLOSED,
    /** The connection, port or queue pair is lost; the peer itself may live. */
    LOST,
    /** The group reports the peer as departed. */
    DEPARTED,
    /**
     * One side has sent data that the other cannot accept, for example a put into a closed region.
     */
    PROTOCOL
  }

  /**
   * The reason for which no more data can arrive from a peer. If the peer has closed its wire, only
   * after it has done so on all lanes: earlier data may still be in flight on some lanes when
   * others report the close.
   *
   * @param lanes all lanes to that peer
   * @return null while data may arrive
   */
  public static @Nullable LaneFailure of(Lane... lanes) {
    LaneFailure closed = null;
    boolean all = true;
    for (Lane lane : lanes) {
      LaneFailure failure = lane.failure();
      if (failure != null && failure.cause() != Cause.CLOSED) {
        return failure;
      }
      closed = failure == null ? closed : failure;
      all &= failure != null;
    }
    return all ? closed : null;
  }

  /** As {@link #of(Lane...)}, for all lanes of a wire to a peer. */
  public static @Nullable LaneFailure of(Wire wire, int peer) {
    Lane[] lanes = new Lane[wire.config().lanes()];
    Arrays.setAll(lanes, i -> wire.lane(peer, i));
    return of(lanes);
  }

  /** Number of pieces of work that may be lost. */
  public long lost() {
    return accepted - delivered;
  }

  @Override
  public String toString() {
    return "lane %d to rank %d failed (%s): %s; %s"
        .formatted(
            lane,
            peer,
            cause,
            text,
            lost() == 0
                ? "no work was lost"
                : "of %d pieces of work the last %d may be lost".formatted(accepted, lost()));
  }
}
