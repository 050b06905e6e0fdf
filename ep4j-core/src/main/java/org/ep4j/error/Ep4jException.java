package org.ep4j.error;

import org.jspecify.annotations.Nullable;

/** Root of the errors whose cause is outside the call: peers, machines, libraries. */
public class Ep4jException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final ErrorCode code;

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   */
  public Ep4jException(ErrorCode code, String text) {
    super(code.message(text)); // without a cause, so that initCause() can still set one
    this.code = code;
  }

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   * @param cause the error below, or null
   */
  public Ep4jException(ErrorCode code, String text, @Nullable Throwable cause) {
    super(code.message(text), cause);
    this.code = code;
  }

  /** Stable code of the error. */
  public final ErrorCode errorCode() {
    return code;
  }

  /** The message without its code, for an error that adds words. */
  public final String text() {
    return String.valueOf(getMessage()).substring(code.message("").length());
  }
}
