package org.ep4j.group;

import org.ep4j.ErrorCode;

/**
 * A rank that was needed is no longer in the group: it left, it died, or this very rank was
 * declared dead by the others.
 */
public final class PeerLostException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int rank;

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   * @param rank the rank that is gone; -1 for a host of the rendezvous that is no rank
   */
  public PeerLostException(ErrorCode code, String text, int rank) {
    super(code, text);
    this.rank = rank;
  }

  /**
   * @param message what was waited for, who is gone, and how that was noticed
   * @param rank the rank that is gone; -1 for a host of the rendezvous that is no rank
   */
  public PeerLostException(String message, int rank) {
    super(message);
    this.rank = rank;
  }

  /** What a rank is told that is out itself: the others have given it up, or it has closed. */
  static PeerLostException ofCaller(String call, int rank, String why) {
    return new PeerLostException(
        "%s: this rank (%d) is out of the group: %s".formatted(call, rank, why), rank);
  }

  /** The rank that is gone; -1 for a host of the rendezvous that is no rank. */
  public int rank() {
    return rank;
  }
}
