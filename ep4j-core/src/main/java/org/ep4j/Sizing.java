package org.ep4j;

/**
 * How the number of received rows is settled.
 *
 * @param maxRows 0 = EXACT: the call waits until the host knows the counts. Otherwise STATIC: the
 *     caller fixes the number of rows, the call needs no counts on the host and can be captured;
 *     unused index rows are -1 and an overflow is reported by {@link Dispatch#overflow()}
 */
public record Sizing(long maxRows) {
  /** The host learns the counts. */
  public static final Sizing EXACT = new Sizing(0);

  /** Checks the limit. */
  public Sizing {
    if (maxRows < 0) {
      throw new InvalidArgumentException(
          "maxRows", String.valueOf(maxRows), ">= 1 (or Sizing.EXACT)", "pass the largest count");
    }
  }

  /** STATIC with the given number of rows. */
  public static Sizing atMost(long rows) {
    if (rows < 1) {
      throw new InvalidArgumentException(
          "rows", String.valueOf(rows), ">= 1", "pass the largest count or use Sizing.EXACT");
    }
    return new Sizing(rows);
  }

  /** Whether the caller fixed the number of rows. */
  public boolean isStatic() {
    return maxRows > 0;
  }
}
