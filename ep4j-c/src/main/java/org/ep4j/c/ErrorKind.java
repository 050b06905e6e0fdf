package org.ep4j.c;

import org.ep4j.ConfigurationMismatchException;
import org.ep4j.EngineUnavailableException;
import org.ep4j.Ep4jException;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.PeerTimeoutException;
import org.ep4j.ReceiveOverflowException;
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
  DEFECT(Throwable.class);

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
    if (error instanceof UnsupportedOperationException) {
      return USE;
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
