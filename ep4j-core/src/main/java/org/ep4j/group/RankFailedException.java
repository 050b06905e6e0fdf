package org.ep4j.group;

/** The code of a rank threw; the cause is what it threw. */
public final class RankFailedException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int rank;

  /**
   * @param rank the rank that failed first
   * @param cause what its code threw
   */
  public RankFailedException(int rank, Throwable cause) {
    super("rank " + rank + " failed: " + cause, cause);
    this.rank = rank;
  }

  /** The rank that failed first. */
  public int rank() {
    return rank;
  }
}
