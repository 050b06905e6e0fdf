package org.ep4j.group;

import org.jspecify.annotations.Nullable;

/** The rendezvous does not let this rank in, and trying again will not help. */
public final class JoinRefusedException extends GroupException {
  private static final long serialVersionUID = 1L;

  /** Why. */
  public enum Reason {
    /** One side does not know the other's secret. */
    UNAUTHENTICATED(1),
    /** The other side does not speak this protocol, or another version of it. */
    WRONG_PROTOCOL(2),
    /** The rank counts on another number of ranks. */
    WRONG_WORLD_SIZE(3),
    /** The rank is not within the world. */
    RANK_OUT_OF_RANGE(4),
    /** Another process already is this rank. */
    DUPLICATE_RANK(5),
    /** The port serves another job. */
    ANOTHER_JOB(6),
    /** The port is taken by another program or job, so this process cannot host the rendezvous. */
    PORT_TAKEN(7),
    /** The rank was declared dead: only a process that rejoins takes its place. */
    DECLARED_DEAD(8),
    /** The rendezvous was closed before the group was complete. */
    CLOSED(9),
    /** Another process already waits to take the place of the rank. */
    PLACE_TAKEN(10),
    /** The group has not formed yet, so no rank of it has departed. */
    NOT_FORMED(11),
    /** The group is about to change its rendezvous; a process that rejoins tries again. */
    MOVING(12);

    /** How frames say it. */
    final byte code;

    Reason(int code) {
      this.code = (byte) code;
    }
  }

  private final Reason reason;

  /**
   * @param reason why
   * @param message what was refused, with the values on both sides, and the remedy
   * @param cause the error behind it, if there is one
   */
  public JoinRefusedException(Reason reason, String message, @Nullable Throwable cause) {
    super(message, cause);
    this.reason = reason;
  }

  /** Why. */
  public Reason reason() {
    return reason;
  }
}
