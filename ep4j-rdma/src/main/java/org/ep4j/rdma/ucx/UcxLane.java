package org.ep4j.rdma.ucx;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * A queue of work. Accepted work is posted, which starts the puts of long payloads, then framed,
 * and delivered when the peer has acknowledged it: {@code delivered <= framed <= posted <=
 * accepted}.
 */
final class UcxLane extends GroupLane<UcxRegion> {
  /** Maximum payload inside a message, which saves a flush. */
  static final int SHORT = 4096;

  private final UcxWire wire;
  private final UcxConnection peerConnection;

  /** Number of the last put of the work; 0 if its bytes are inside messages. */
  final long[] lastPut;

  /** Work whose puts are posted, or which needs none. */
  long posted;

  /** Posted bytes of the next work. */
  long postedBytes;

  /** Work whose last frame is built. */
  long framed;

  /** Framed bytes of the next work. */
  long framedBytes;

  /** Number of the message with the last frame of this lane. */
  long message;

  /** Work of the peer that has taken effect here, and the part that is acknowledged. */
  long applied;

  long acknowledged;

  UcxLane(UcxWire wire, UcxConnection peerConnection, InFlightLimit window, int index) {
    super(wire, window, peerConnection.peer(), index);
    this.wire = wire;
    this.peerConnection = peerConnection;
    lastPut = new long[slots()];
  }

  @Override
  protected UcxRegion own(Region given) {
    return UcxRegion.of(given, wire);
  }

  @Override
  protected boolean connected() {
    return peerConnection.isOpen();
  }

  @Override
  protected void kept(int slot) {
    lastPut[slot] = 0;
    if (isLong(slot) && posted == accepted() - 1) {
      peerConnection.post();
    }
  }

  /** Whether work waits to be posted. */
  boolean waitsForPost() {
    return posted != accepted();
  }

  /** Index of the next work to post. */
  int nextPost() {
    return slot(posted);
  }

  /** Whether the payload of a work item is sent by puts. */
  boolean isLong(int slot) {
    UcxRegion target = remote(slot);
    return target != null && target.direct() && bytes(slot) > SHORT;
  }

  /**
   * Whether work can be framed.
   *
   * @param visible number of the last put whose bytes are visible
   */
  boolean waitsForFrame(long visible) {
    return framed != posted && lastPut[next()] <= visible;
  }

  /** Index of the next work to frame. */
  int next() {
    return slot(framed);
  }

  /**
   * Handles an acknowledgement of the peer.
   *
   * @return false if the value is impossible
   */
  boolean acknowledge(long upTo) {
    if (upTo < delivered() || upTo > framed) {
      return false;
    }
    deliver(upTo);
    return true;
  }

  @Override
  protected void fail(Cause cause, String text) {
    posted = accepted();
    framed = accepted();
    super.fail(cause, text);
  }

  @Override
  public boolean flush() {
    requireOpen();
    return failure() != null || (peerConnection.isOpen() && peerConnection.hasLeft(this));
  }

  /** Whether all accepted work is framed. */
  boolean isFramed() {
    return framed == accepted();
  }
}
