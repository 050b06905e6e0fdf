package org.ep4j.error;

/**
 * The state of an object does not allow the call: the object is closed, in use by another thread,
 * outdated, or needs another call first. Thrown before anything is sent; the state of the object
 * does not change.
 */
public final class IllegalUseException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  private final ErrorCode code;

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   */
  public IllegalUseException(ErrorCode code, String text) {
    super(code.message(text));
    this.code = code;
  }

  /** Stable code of the error. */
  public ErrorCode errorCode() {
    return code;
  }
}
