package org.ep4j.cuda.internode;

import java.util.Objects;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * Copies work and counts it once the copies of its progress context are done: {@code delivered <=
 * copied}.
 */
final class CopyingLane extends GroupLane<CopyingRegion> {
  private final CopyingWire wire;
  private final CopyingWire there;
  private long copied;

  CopyingLane(CopyingWire wire, CopyingWire there, WireConfig config, int peer, int index) {
    super(wire, new InFlightLimit(config), peer, index);
    this.wire = wire;
    this.there = there;
  }

  @Override
  protected CopyingRegion own(Region region) {
    return CopyingRegion.of(region, wire);
  }

  /** Starts the copies of all accepted work; returns the number of pieces. */
  int copy(CudaStream stream) {
    if (failure() != null) {
      return 0;
    }
    if (there.hasLeft()) {
      fail(Cause.CLOSED, "the peer has closed its wire");
      wire.failed(1);
      return 0;
    }
    int begun = 0;
    for (; copied < accepted(); copied++) {
      int slot = slot(copied);
      CopyingRegion from = local(slot);
      CopyingRegion to = remote(slot);
      if (from != null && to != null && bytes(slot) > 0) {
        CopyingRegion target = Objects.requireNonNull(there.region(to.number()), "closed there");
        DeviceCopies.copy(
            target.memory().address() + remoteOffset(slot),
            from.memory().address() + localOffset(slot),
            bytes(slot),
            stream);
      }
      begun++;
    }
    return begun;
  }

  /** Counts the work whose copies are done; returns the number of pieces. */
  int count() {
    int before = (int) (copied - delivered());
    for (long work = delivered(); work < copied && failure() == null; work++) {
      int slot = slot(work);
      if (counter(slot) != NO_COUNTER) {
        there.counters().add(counter(slot), remote(slot) == null ? localOffset(slot) : 1);
      }
    }
    if (failure() == null) {
      deliver(copied);
    }
    return before;
  }

  @Override
  protected void fail(Cause cause, String text) {
    super.fail(cause, text);
    copied = accepted();
  }

  @Override
  public boolean flush() {
    requireOpen();
    return failure() != null || delivered() == accepted();
  }
}
