package org.ep4j.engine.world;

import org.ep4j.error.PeerTimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Reason why a rank has aborted an operation, as the other ranks get it.
 *
 * @param peer the rank that caused it
 * @param dead whether that rank is dead or unreachable
 * @param state what to report of that rank, as {@link PeerTimeoutException#peerState}
 * @param awaited whether its sender waited for the rank that received it
 */
public record AbortReport(int peer, boolean dead, String state, boolean awaited) {
  /** A report of any rank. */
  public AbortReport(int peer, boolean dead, String state) {
    this(peer, dead, state, false);
  }

  /**
   * What a rank tells of its own abort.
   *
   * @param rank the rank that aborts
   * @param reason what ended its operation
   * @param cause the same as an exception, or null
   */
  public static AbortReport of(int rank, String reason, @Nullable Throwable cause) {
    return cause instanceof PeerTimeoutException timeout && timeout.peer() != rank
        ? new AbortReport(timeout.peer(), timeout.peerDead(), timeout.peerState())
        : new AbortReport(rank, false, "has aborted (" + reason + ")");
  }

  /**
   * The same for a rank that has received it.
   *
   * @param reporter the rank that tells it
   */
  public AbortReport receivedBy(int rank, int reporter) {
    if (peer == rank) {
      return new AbortReport(
          reporter, false, "has aborted (its report: this rank " + state + ")", !dead);
    }
    return reporter == peer
        ? this
        : new AbortReport(peer, dead, state + ", reported by rank " + reporter);
  }

  /**
   * Whether the report says why a wait of the receiver has ended. Deadlines of ranks that wait for
   * one another pass together, and any of them may report first. A rank that waited for the
   * receiver does not know what the receiver waited for: if that took more than half of a timeout,
   * the failure began there.
   *
   * @param peer for which the receiver waited
   * @param waited length of the receiver's wait, in the unit of {@code timeout}
   */
  public boolean explains(int peer, long waited, long timeout) {
    return !awaited || peer == this.peer || waited <= timeout / 2;
  }
}
