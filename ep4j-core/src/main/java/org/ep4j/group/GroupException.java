package org.ep4j.group;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/** Root of the errors between the ranks of a group. The process stays usable. */
public class GroupException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   */
  public GroupException(ErrorCode code, String text) {
    super(code, text);
  }

  /**
   * @param code stable code of the error
   * @param text what is wrong, and what to do
   * @param cause the error below, or null
   */
  public GroupException(ErrorCode code, String text, @Nullable Throwable cause) {
    super(code, text, cause);
  }
}
