package org.ep4j.group;

import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/** The rendezvous refuses this rank, and a retry does not help. */
public final class JoinRefusedException extends GroupException {
  private static final long serialVersionUID = 1L;

  /** Kinds of refusal. */
  public enum Reason {
    /** One side does not know the other's secret. */
    UNAUTHENTICATED(1, ErrorCode.SECRET_MISMATCH),
    /** The peer does not speak this protocol, or speaks another version of it. */
    WRONG_PROTOCOL(2, ErrorCode.PROTOCOL_MISMATCH),
    /** The rank expects another number of ranks. */
    WRONG_WORLD_SIZE(3, ErrorCode.WORLD_SIZE_MISMATCH),
    /** The rank is outside the world. */
    RANK_OUT_OF_RANGE(4, ErrorCode.RANK_NOT_IN_GROUP),
    /** Another process already has this rank. */
    DUPLICATE_RANK(5, ErrorCode.DUPLICATE_RANK),
    /** The port serves another job. */
    ANOTHER_JOB(6, ErrorCode.OTHER_JOB),
    /** Another program or job has the port, so this process cannot host the rendezvous. */
    PORT_TAKEN(7, ErrorCode.RENDEZVOUS_PORT_TAKEN),
    /** The rank was declared dead; only a process that rejoins can replace it. */
    DECLARED_DEAD(8, ErrorCode.RANK_DECLARED_DEAD),
    /** The rendezvous was closed before the group was complete. */
    CLOSED(9, ErrorCode.RENDEZVOUS_CLOSED),
    /** Another process already waits to replace the rank. */
    PLACE_TAKEN(10, ErrorCode.REJOIN_PENDING),
    /** The group has not formed yet, so no rank has departed. */
    NOT_FORMED(11, ErrorCode.GROUP_NOT_FORMED),
    /** The group is about to change its rendezvous; a process that rejoins tries again. */
    MOVING(12, ErrorCode.RENDEZVOUS_MOVING),
    /** The job has as many observers as it answers. */
    TOO_MANY_OBSERVERS(13, ErrorCode.TOO_MANY_OBSERVERS);

    /** Encoding in frames. */
    public final byte code;

    final ErrorCode errorCode;

    Reason(int code, ErrorCode errorCode) {
      this.code = (byte) code;
      this.errorCode = errorCode;
    }
  }

  private final Reason reason;

  /**
   * @param reason kind of refusal
   * @param text what was refused, with the values on both sides, and the remedy
   * @param cause the error below, or null
   */
  public JoinRefusedException(Reason reason, String text, @Nullable Throwable cause) {
    super(reason.errorCode, text, cause);
    this.reason = reason;
  }

  /** Kind of refusal. */
  public Reason reason() {
    return reason;
  }
}
