package org.ep4j.wire;

import org.ep4j.error.ErrorCode;

/** Work on a wire did not complete before the deadline. */
public final class WireTimeoutException extends WireException {
  private static final long serialVersionUID = 1L;

  /** A wait described by {@code message}: for what, how long, and the state at its end. */
  public WireTimeoutException(String message) {
    super(ErrorCode.WIRE_TIMEOUT, message);
  }
}
