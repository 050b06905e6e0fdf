package org.ep4j.group;

import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/** Ranks did not do their part before the deadline. */
public final class GroupTimeoutException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int[] missing;

  /**
   * @param code stable code of the error
   * @param text the operation that waited, the length of the wait, and what to do
   * @param missing the missing ranks, ascending; empty if unknown
   * @param cause the last error before the deadline, or null
   */
  public GroupTimeoutException(
      ErrorCode code, String text, int[] missing, @Nullable Throwable cause) {
    super(code, text, cause);
    this.missing = missing.clone();
  }

  /** The missing ranks, ascending; empty if unknown. */
  public int[] missing() {
    return missing.clone();
  }
}
