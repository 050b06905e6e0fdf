package org.ep4j.wire.tcp;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * A queue of work. Accepted work is framed, and delivered when the peer has acknowledged it: {@code
 * delivered <= framed <= accepted}.
 */
final class TcpLane extends GroupLane<TcpRegion> {
  private final TcpWire wire;
  private final Connection connection;

  /** Number of the work whose last frame was made. */
  long framed;

  /** Bytes of the next work that are framed. */
  long framedBytes;

  /** Position in the connection's byte stream at which the last frame of this lane ends. */
  long frameEnd;

  /** Work of the peer that has taken effect here, and the acknowledged part of it. */
  long applied;

  long acknowledged;

  TcpLane(TcpWire wire, Connection connection, InFlightLimit window, int index) {
    super(wire, window, connection.peer(), index);
    this.wire = wire;
    this.connection = connection;
  }

  @Override
  protected TcpRegion own(Region given) {
    return TcpRegion.of(given, wire);
  }

  /** Whether there is work without frames. */
  boolean waits() {
    return framed != accepted();
  }

  /** Ring slot of the next work to frame. */
  int next() {
    return slot(framed);
  }

  /**
   * The peer acknowledges work up to this number.
   *
   * @return whether the number is possible
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
    framed = accepted();
    super.fail(cause, text);
  }

  @Override
  public boolean flush() {
    requireOpen();
    if (failure() == null && (waits() || frameEnd > connection.written())) {
      connection.send();
    }
    return failure() != null || (!waits() && frameEnd <= connection.written());
  }
}
