package org.ep4j.group;

import org.ep4j.error.ErrorCode;

/**
 * A required rank is no longer in the group: it left, it died, or the other ranks declared this
 * rank dead.
 */
public final class PeerLostException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int rank;

  /**
   * @param code stable code of the error
   * @param text the operation that waited, the lost rank, and how the loss was noticed
   * @param rank the lost rank; -1 for a host of the rendezvous that is not a rank
   */
  public PeerLostException(ErrorCode code, String text, int rank) {
    super(code, text);
    this.rank = rank;
  }

  /**
   * The error of a rank that is itself out of the group: declared dead by the others, or closed.
   */
  public static PeerLostException ofCaller(String call, int rank, String why) {
    return new PeerLostException(
        ErrorCode.RANK_LOST,
        "%s: this rank (%d) is out of the group: %s".formatted(call, rank, why),
        rank);
  }

  /** The lost rank; -1 for a host of the rendezvous that is not a rank. */
  public int rank() {
    return rank;
  }
}
