package org.ep4j.rdma.ucx;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * A queue of work. Before accepted work can be framed it is posted: if its bytes go past the
 * messages, they are given to UCX then. It is delivered when the peer has acknowledged it. {@code
 * delivered <= framed <= posted <= accepted}.
 */
final class UcxLane extends GroupLane<UcxRegion> {
  /** Up to here bytes go with the message that counts them, which saves a flush. */
  static final int SHORT = 4096;

  private final UcxWire wire;
  private final UcxConnection peerConnection;

  /** Number of the put with which the bytes are visible; 0 if they go with messages. */
  final long[] lastPut;

  /** Work whose bytes have been given to UCX, as far as they go past the messages. */
  long posted;

  /** Bytes of the next work that have been. */
  long postedBytes;

  /** Work whose last frame has been made. */
  long framed;

  /** Bytes of the next work that have been framed. */
  long framedBytes;

  /** Number of the message with the last frame of this lane. */
  long message;

  /** Work of the peer that has taken effect here, and how much of it the peer was told of. */
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

  /** Whether there is work that has not been posted. */
  boolean waitsForPost() {
    return posted != accepted();
  }

  /** Index of the next work to post. */
  int nextPost() {
    return slot(posted);
  }

  /** Whether the bytes of some work go past the messages. */
  boolean isLong(int slot) {
    UcxRegion target = remote(slot);
    return target != null && target.direct() && bytes(slot) > SHORT;
  }

  /**
   * Whether there is work that may be framed.
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
   * The peer has said how much has taken effect.
   *
   * @return whether that can be
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

  /** Whether every accepted piece of work is in a message. */
  boolean isFramed() {
    return framed == accepted();
  }
}
