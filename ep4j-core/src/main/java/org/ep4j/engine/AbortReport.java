package org.ep4j.engine;

import org.ep4j.PeerTimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Reason why a rank has aborted an operation, as the other ranks get it.
 *
 * @param peer the rank that caused it
 * @param dead whether that rank is dead or unreachable
 * @param state what to report of that rank, as {@link PeerTimeoutException#peerState}
 */
public record AbortReport(int peer, boolean dead, String state) {
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
      return new AbortReport(reporter, false, "has aborted (its report: this rank " + state + ")");
    }
    return reporter == peer
        ? this
        : new AbortReport(peer, dead, state + ", reported by rank " + reporter);
  }
}
