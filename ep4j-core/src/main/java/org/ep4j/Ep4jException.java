package org.ep4j;

import org.jspecify.annotations.Nullable;

/** Root of the errors whose cause is outside the call: peers, machines, libraries. */
public class Ep4jException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Null in errors that have no code yet. */
  private final @Nullable ErrorCode code;

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

  /** An error with a message. */
  public Ep4jException(String message) {
    super(message);
    this.code = null;
  }

  /** An error with a message and its cause. */
  public Ep4jException(String message, @Nullable Throwable cause) {
    super(message, cause);
    this.code = null;
  }

  /** Stable code of the error; null if the error has none yet. */
  public final @Nullable ErrorCode errorCode() {
    return code;
  }
}
