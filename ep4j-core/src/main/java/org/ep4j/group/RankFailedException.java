package org.ep4j.group;

import java.util.List;
import java.util.stream.Collectors;
import org.ep4j.error.ErrorCode;

/** The code of a rank threw; the cause is that exception. */
public final class RankFailedException extends GroupException {
  private static final long serialVersionUID = 1L;

  private final int rank;

  /**
   * A failure of several ranks.
   *
   * @param rank the rank that failed first
   * @param cause the exception of its code
   * @param alike the other ranks whose code threw the same, ascending
   */
  RankFailedException(int rank, Throwable cause, List<Integer> alike) {
    super(ErrorCode.RANK_CODE_FAILED, text(rank, cause, alike), cause);
    this.rank = rank;
  }

  private static String text(int rank, Throwable cause, List<Integer> alike) {
    String others =
        alike.isEmpty()
            ? ""
            : " (so did %s %s)"
                .formatted(
                    alike.size() == 1 ? "rank" : "ranks",
                    alike.stream().map(String::valueOf).collect(Collectors.joining(", ")));
    return "rank " + rank + " failed" + others + ": " + cause;
  }

  /**
   * @param rank the rank that failed first
   * @param cause the exception of its code
   */
  public RankFailedException(int rank, Throwable cause) {
    this(rank, cause, List.of());
  }

  /** The rank that failed first. */
  public int rank() {
    return rank;
  }
}
