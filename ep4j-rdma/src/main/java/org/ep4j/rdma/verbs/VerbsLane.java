package org.ep4j.rdma.verbs;

import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * A queue of work. The requests of accepted work are posted, its bytes leave, and it is delivered
 * when it has taken effect: {@code delivered <= left <= posted <= accepted}.
 */
final class VerbsLane extends GroupLane<VerbsRegion> {
  private final VerbsWire wire;
  private QueuePair pair;
  private long posted;
  private long left;

  /** Bytes of the next work that have been posted. */
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

  /** Whether there is work that is not posted. */
  boolean waits() {
    return posted != accepted();
  }

  /** Index of the next work to post. */
  int next() {
    return slot(posted);
  }

  /** The next work is posted; its number. */
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
   * Its queue pair is lost, and what has taken effect is known: what has not is posted again over
   * another one, from the same bytes, which nobody was told may change.
   *
   * @return pieces of work to post; negative if bytes had left that never took effect
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
