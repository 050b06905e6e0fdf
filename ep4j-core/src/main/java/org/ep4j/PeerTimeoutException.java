package org.ep4j;

/**
 * A peer did not do its part before the deadline, or died, or has given up for such a reason. The
 * process and the buffer survive: after {@link ExpertBuffer#reset()} on all live ranks the buffer
 * works again.
 */
public final class PeerTimeoutException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final String operation;
  private final String phase;
  private final long epoch;
  private final int peer;
  private final long expected;
  private final long seen;
  private final String peerState;
  private final boolean dead;

  /**
   * @param operation the public operation that waited, for example {@code dispatch}
   * @param phase what it waited for, for example {@code counts}
   * @param epoch number of the operation on the buffer
   * @param peer the silent rank
   * @param expected value of the peer's progress word that would have ended the wait
   * @param seen value that was there
   * @param waitedMillis how long the wait took
   * @param death why the peer is known to be dead, empty if it is only silent
   */
  public PeerTimeoutException(
      String operation,
      String phase,
      long epoch,
      int peer,
      long expected,
      long seen,
      long waitedMillis,
      String death) {
    this(
        operation,
        phase,
        epoch,
        peer,
        expected,
        seen,
        waitedMillis,
        death.isEmpty() ? "is silent" : "is dead (" + death + ")",
        !death.isEmpty());
  }

  /**
   * As the other one, with more to say about the peer.
   *
   * @param operation the public operation that waited
   * @param phase what it waited for
   * @param epoch number of the operation on the buffer
   * @param peer the rank where the trouble began
   * @param expected value of the progress word that would have ended the wait
   * @param seen value that was there
   * @param waitedMillis how long the wait took
   * @param peerState what is known of the peer, for example {@code is silent}
   * @param dead whether it is dead or cannot be reached
   */
  public PeerTimeoutException(
      String operation,
      String phase,
      long epoch,
      int peer,
      long expected,
      long seen,
      long waitedMillis,
      String peerState,
      boolean dead) {
    super(ErrorCode.PEER_TIMEOUT, operation + ", epoch "
            + epoch
            + ": rank "
            + peer
            + " "
            + peerState
            + " in phase '"
            + phase
            + "' after "
            + waitedMillis
            + " ms; expected progress "
            + expected
            + ", seen "
            + seen
            + ": call reset() on all live ranks");
    this.operation = operation;
    this.phase = phase;
    this.epoch = epoch;
    this.peer = peer;
    this.expected = expected;
    this.seen = seen;
    this.peerState = peerState;
    this.dead = dead;
  }

  /** The public operation that waited. */
  public String operation() {
    return operation;
  }

  /** What it waited for. */
  public String phase() {
    return phase;
  }

  /** Number of the operation on the buffer. */
  public long epoch() {
    return epoch;
  }

  /** The silent rank. */
  public int peer() {
    return peer;
  }

  /** Value of the peer's progress word that would have ended the wait. */
  public long expected() {
    return expected;
  }

  /** Value that was there when the wait was given up. */
  public long seen() {
    return seen;
  }

  /** What is known of the peer, for example {@code is silent}. */
  public String peerState() {
    return peerState;
  }

  /** Whether the peer is known to be dead, or out of reach, rather than silent. */
  public boolean peerDead() {
    return dead;
  }
}
