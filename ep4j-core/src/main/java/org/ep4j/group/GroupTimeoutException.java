package org.ep4j.group;

import org.jspecify.annotations.Nullable;

/** Ranks did not do their part before the deadline. */
public final class GroupTimeoutException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int[] missing;

  /**
   * @param message what was waited for, and how long
   * @param missing the ranks that were missing, ascending; empty if not known
   * @param cause the last error before the deadline, if there was one
   */
  public GroupTimeoutException(String message, int[] missing, @Nullable Throwable cause) {
    super(message, cause);
    this.missing = missing.clone();
  }

  /** The ranks that were missing, ascending; empty if it is not known who they are. */
  public int[] missing() {
    return missing.clone();
  }
}
