package org.ep4j;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * How the number of received rows is determined.
 *
 * @param maxRows 0 = {@link #EXACT}: the call waits until the host knows the counts. Otherwise
 *     {@link #atMost}: the caller fixes the number of rows; the call needs no counts on the host
 *     and can be captured in a graph. Unused index rows are -1, and {@link Dispatch#overflow()}
 *     reports an overflow
 */
public record Sizing(long maxRows) {
  /** The call waits until the host knows the counts. */
  public static final Sizing EXACT = new Sizing(0);

  /**
   * Checks the limit.
   *
   * @throws InvalidArgumentException if the limit is negative
   */
  public Sizing {
    if (maxRows < 0) {
      throw new InvalidArgumentException(
          ErrorCode.MAX_ROWS,
          "maxRows",
          String.valueOf(maxRows),
          ">= 1 (or Sizing.EXACT)",
          "pass the largest row count");
    }
  }

  /**
   * The caller fixes the number of rows.
   *
   * @throws InvalidArgumentException if {@code rows} is not positive
   */
  public static Sizing atMost(long rows) {
    if (rows < 1) {
      throw new InvalidArgumentException(
          ErrorCode.MAX_ROWS,
          "rows",
          String.valueOf(rows),
          ">= 1",
          "pass the largest row count or use Sizing.EXACT");
    }
    return new Sizing(rows);
  }

  /** Whether the caller fixed the number of rows. */
  public boolean isStatic() {
    return maxRows > 0;
  }
}
