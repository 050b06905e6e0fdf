package org.ep4j.group;

import org.ep4j.ErrorCode;

/** The code of a rank threw; the cause is that exception. */
public final class RankFailedException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int rank;

  /**
   * @param rank the rank that failed first
   * @param cause the exception of its code
   */
  public RankFailedException(int rank, Throwable cause) {
    super(ErrorCode.RANK_CODE_FAILED, "rank " + rank + " failed: " + cause, cause);
    this.rank = rank;
  }

  /** The rank that failed first. */
  public int rank() {
    return rank;
  }
}
