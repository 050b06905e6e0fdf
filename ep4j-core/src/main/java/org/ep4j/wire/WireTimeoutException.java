package org.ep4j.wire;

/** What was waited for did not come in time. */
public final class WireTimeoutException extends WireException {
  private static final long serialVersionUID = 1L;

  /** A wait described by {@code message}: what for, how long, what was there. */
  public WireTimeoutException(String message) {
    super(message);
  }
}
