package org.ep4j.wire.support;

import org.ep4j.wire.WireConfig;

/**
 * What may be under way from one strand to one peer. Taken by a put, given back when the peer says
 * that it has taken effect. Touched by the strand's thread.
 */
public final class InFlightLimit {
  private final int maxOperations;
  private final long maxBytes;
  private int operations;
  private long bytes;

  /** An empty window, as wide as the configuration says. */
  public InFlightLimit(WireConfig config) {
    maxOperations = config.operationsInFlight();
    maxBytes = config.bytesInFlight();
  }

  /** Takes room for a piece of work, if there is any; more than fits at all goes alone. */
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
