package org.ep4j.wire;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/** A wire cannot be opened, or cannot do what a rank requests; the process stays usable. */
public class WireException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   */
  public WireException(ErrorCode code, String text) {
    super(code, text);
  }

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   * @param cause the error below, or null
   */
  public WireException(ErrorCode code, String text, @Nullable Throwable cause) {
    super(code, text, cause);
  }
}
