package org.ep4j.wire;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * How a lane failed.
 *
 * @param peer the peer of the lane
 * @param lane index of the lane
 * @param cause what kind of failure
 * @param text what was noticed, for people
 * @param delivered work up to this number has taken effect at the peer
 * @param accepted work after {@code delivered} up to this number may be lost: it may have taken
 *     effect wholly, partly or not at all, but a counter has counted only puts that are whole
 */
public record LaneFailure(
    int peer, int lane, Cause cause, String text, long delivered, long accepted) {
  /** Kinds of failure. */
  public enum Cause {
    /** The peer has closed its wire. */
    CLOSED,
    /** The connection, port or queue pair is lost; the peer itself may live. */
    LOST,
    /** The group says that the peer is gone. */
    DEPARTED,
    /** One side has sent what the other cannot take, for example into a region that is closed. */
    PROTOCOL
  }

  /**
   * Why nothing more may come from a peer. Where it has closed its wire, only once it has done so
   * on all lanes: what it sent before may still be under way on some when others say that it has
   * gone.
   *
   * @param lanes all lanes to that peer
   * @return null while something may come
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

  /** The same of all lanes of a wire to a peer. */
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
