package org.ep4j.rdma.verbs;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * A queue of work. Requests of accepted work are posted, its bytes leave, and the work is delivered
 * when it has taken effect: {@code delivered <= left <= posted <= accepted}.
 */
final class VerbsLane extends GroupLane<VerbsRegion> {
  private final VerbsWire wire;
  private QueuePair pair;
  private long posted;
  private long left;

  /** Posted bytes of the next work. */
  long postedBytes;

  VerbsLane(VerbsWire wire, QueuePair pair, InFlightLimit window, int peer, int index) {
    super(wire, window, peer, index);
    this.wire = wire;
    this.pair = pair;
  }

  @Override
  protected VerbsRegion own(Region given) {
    return VerbsRegion.of(given, wire);
  }

  @Override
  protected void kept(int slot) {
    pair.expect(1);
  }

  /** Whether work waits to be posted. */
  boolean waits() {
    return posted != accepted();
  }

  /** Index of the next work to post. */
  int next() {
    return slot(posted);
  }

  /** Marks the next work as posted; returns its number. */
  long post() {
    postedBytes = 0;
    return ++posted;
  }

  /** The local bytes up to this work have left. */
  void left(long work) {
    left = Math.max(left, work);
  }

  /** All up to this work has taken effect. */
  void delivered(long work) {
    deliver(work);
  }

  /**
   * Moves the lane from a lost queue pair to another one. Work that has not taken effect is posted
   * again from the same bytes, which the caller may not change before {@code flush()}.
   *
   * @return number of work items to post; negative if bytes have left whose work did not take
   *     effect
   */
  long move(QueuePair to) {
    if (left > delivered()) {
      return -1;
    }
    pair = to;
    posted = delivered();
    postedBytes = 0;
    return accepted() - posted;
  }

  @Override
  protected void fail(Cause cause, String text) {
    posted = accepted();
    super.fail(cause, text);
  }

  @Override
  public boolean flush() {
    requireOpen();
    if (failure() == null && waits()) {
      pair.send();
    }
    return failure() != null || left == accepted();
  }
}
