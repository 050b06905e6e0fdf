package org.ep4j.c;

import java.util.EnumSet;
import java.util.Set;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.PeerLostException;

/** {@code EP4J_ERROR_*} of {@code ep4j.h}; the number is the ordinal + 1. */
enum ErrorKind {
  ARGUMENT(IllegalArgumentException.class),
  USE(IllegalStateException.class),
  UNAVAILABLE(EngineUnavailableException.class),
  MISMATCH(ConfigurationMismatchException.class),
  PEER_TIMEOUT(PeerTimeoutException.class),
  OVERFLOW(ReceiveOverflowException.class),
  PEER_LOST(PeerLostException.class),
  GROUP_TIMEOUT(GroupTimeoutException.class),
  JOIN_REFUSED(JoinRefusedException.class),
  GROUP(GroupException.class),
  SYSTEM(Ep4jException.class),
  DEFECT(Throwable.class),
  INTERRUPTED(InterruptedException.class);

  /** Codes of waits that an interrupt of their thread has ended. */
  private static final Set<ErrorCode> INTERRUPTS =
      EnumSet.of(
          ErrorCode.OPERATION_INTERRUPTED,
          ErrorCode.EVENT_WAIT_INTERRUPTED,
          ErrorCode.GROUP_INTERRUPTED);

  private final Class<? extends Throwable> type;

  ErrorKind(Class<? extends Throwable> type) {
    this.type = type;
  }

  /** Number in {@code ep4j_error.kind}. */
  int number() {
    return ordinal() + 1;
  }

  /**
   * The first kind that {@code error} belongs to; arguments and uses without a code are defects.
   */
  static ErrorKind of(Throwable error) {
    // The CUDA engine throws it, with a code, where it cannot do what others can: reset and readmit
    // after the loss of a part of a node, operations between nodes. A use, as the header defines
    // it:
    // the state of the buffer does not allow the call, and nothing was sent.
    if (error instanceof UnsupportedOperationException && ErrorCode.of(error).isPresent()) {
      return USE;
    }
    if (ErrorCode.of(error).filter(INTERRUPTS::contains).isPresent()) {
      return INTERRUPTED;
    }
    for (ErrorKind kind : values()) {
      if (kind.type.isInstance(error)) {
        boolean coded =
            kind != ARGUMENT && kind != USE
                || error instanceof InvalidArgumentException
                || error instanceof IllegalUseException;
        return coded ? kind : DEFECT;
      }
    }
    return DEFECT;
  }
}
