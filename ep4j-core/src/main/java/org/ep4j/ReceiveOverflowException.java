package org.ep4j;

/** More rows are routed to a rank than its receive region holds. */
public final class ReceiveOverflowException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  private final int rank;
  private final long needed;
  private final long available;

  /**
   * @param rank the rank whose region is too small
   * @param needed rows routed to the rank, padding included
   * @param available rows that the region holds
   */
  public ReceiveOverflowException(int rank, long needed, long available) {
    super(
        ErrorCode.RECEIVE_OVERFLOW,
        "the receive region of rank "
            + rank
            + " is too small ("
            + needed
            + " rows needed, "
            + available
            + " available): raise BufferConfig.maxReceiveRows (Sizing.EXACT) or the limit passed to"
            + " Sizing.atMost");
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
