package org.ep4j.error;

import org.ep4j.ExpertBuffer;

/**
 * A peer did not do its part before the deadline, died, closed its buffer, left the group, or
 * aborted because of another peer's failure. Only silence takes until the deadline; the other
 * causes end the wait at once. The process and the buffer survive: {@link ExpertBuffer#reset()} on
 * all live ranks makes the buffer usable again.
 */
public final class PeerTimeoutException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final String operation;
  private final String phase;
  private final long epoch;
  private final int peer;
  private final long expected;
  private final long seen;
  private final long waitedMillis;
  private final String peerState;
  private final boolean dead;

  /**
   * @param operation the public operation that waited, for example {@code dispatch}
   * @param phase the phase that waited, for example {@code counts}
   * @param epoch number of the operation on the buffer
   * @param peer the silent rank
   * @param expected value of the peer's progress word that would have ended the wait
   * @param seen value at the end of the wait
   * @param waitedMillis length of the wait in milliseconds
   * @param death evidence that the peer is dead; empty if the peer is only silent
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
   * An error that describes the state of the peer in words.
   *
   * @param operation the public operation that waited
   * @param phase the phase that waited
   * @param epoch number of the operation on the buffer
   * @param peer the rank where the failure began
   * @param expected value of the progress word that would have ended the wait
   * @param seen value at the end of the wait
   * @param waitedMillis length of the wait in milliseconds
   * @param peerState state of the peer, for example {@code is silent}
   * @param dead whether the peer is dead or unreachable
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
    super(
        ErrorCode.PEER_TIMEOUT,
        operation
            + ", epoch "
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
    this.waitedMillis = waitedMillis;
    this.peerState = peerState;
    this.dead = dead;
  }

  /** The public operation that waited. */
  public String operation() {
    return operation;
  }

  /** The phase that waited, for example {@code counts}. */
  public String phase() {
    return phase;
  }

  /** Number of the operation on the buffer. */
  public long epoch() {
    return epoch;
  }

  /** The rank that did not do its part. */
  public int peer() {
    return peer;
  }

  /** Value of the peer's progress word that would have ended the wait. */
  public long expected() {
    return expected;
  }

  /** Value of the progress word at the end of the wait. */
  public long seen() {
    return seen;
  }

  /** Length of the wait in milliseconds. */
  public long waitedMillis() {
    return waitedMillis;
  }

  /** State of the peer, for example {@code is silent} or {@code has closed its buffer}. */
  public String peerState() {
    return peerState;
  }

  /**
   * Whether the peer is dead or unreachable; otherwise it is silent, has aborted, has closed its
   * buffer or has left the group, as {@link #peerState} says.
   */
  public boolean peerDead() {
    return dead;
  }
}
