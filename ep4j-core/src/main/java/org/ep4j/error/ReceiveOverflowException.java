package org.ep4j.error;

import org.ep4j.Sizing;

/**
 * More rows were routed to a rank than its receive region holds. A dispatch with {@link
 * Sizing#EXACT} names the rank that needs the most: its number suffices for all ranks.
 */
public final class ReceiveOverflowException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final long needed;
  private final long available;

  /**
   * @param rank whose region is too small
   * @param needed rows that were routed to it, padding included
   * @param available rows it can hold
   */
  public ReceiveOverflowException(int rank, long needed, long available) {
    super(
        ErrorCode.RECEIVE_OVERFLOW,
        "the receive region of rank "
            + rank
            + " holds "
            + available
            + " rows but "
            + needed
            + " are needed: raise HighThroughputConfig.maxReceiveRows, or the limit of Sizing.atMost(n)");
    this.rank = rank;
    this.needed = needed;
    this.available = available;
  }

  /** The rank whose region is too small. */
  public int rank() {
    return rank;
  }

  /** Rows needed, padding included. */
  public long needed() {
    return needed;
  }

  /** Rows available. */
  public long available() {
    return available;
  }
}
