package org.ep4j.wire.support;

import org.ep4j.wire.WireConfig;

/**
 * Limit of bytes and work in flight from one progress context to one peer. A put takes room, and
 * the acknowledgement of the peer releases it. Only the thread of the progress context accesses it.
 */
public final class InFlightLimit {
  private final int maxOperations;
  private final long maxBytes;
  private int operations;
  private long bytes;

  /** An empty limit with the size of the configuration. */
  public InFlightLimit(WireConfig config) {
    maxOperations = config.operationsInFlight();
    maxBytes = config.bytesInFlight();
  }

  /**
   * Takes room for a piece of work if available; a piece larger than the limit is accepted alone.
   */
  public boolean take(long size) {
    if (operations >= maxOperations || (bytes > 0 && bytes + size > maxBytes)) {
      return false;
    }
    operations++;
    bytes += size;
    return true;
  }

  /** Gives back the room of a piece of work. */
  public void release(long size) {
    operations--;
    bytes -= size;
  }
}
