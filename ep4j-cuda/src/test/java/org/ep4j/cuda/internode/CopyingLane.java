package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.GroupLane;
import org.ep4j.wire.support.InFlightLimit;

/**
 * Copies work in rounds and counts it once the copies of its progress context are done: {@code
 * delivered <= copied}. As with a network card, neither GPU accesses the other's memory: each reads
 * or writes its own, and the bytes lie in page-locked memory in between.
 */
final class CopyingLane extends GroupLane<CopyingRegion> {
  private final CopyingWire wire;
  private final CopyingWire there;

  /** Page-locked memory between the two GPUs; the bytes of one round. */
  private final MemorySegment staging;

  /** Work whose copies have begun, and how many bytes of the next piece. */
  private long copied;

  private long copiedBytes;

  CopyingLane(
      CopyingWire wire,
      CopyingWire there,
      WireConfig config,
      int peer,
      int index,
      MemorySegment staging) {
    super(wire, new InFlightLimit(config), peer, index);
    this.wire = wire;
    this.there = there;
    this.staging = staging;
  }

  @Override
  protected CopyingRegion own(Region region) {
    return CopyingRegion.of(region, wire);
  }

  /** The GPU that the lane writes to. */
  int target() {
    return there.ordinal();
  }

  /**
   * Starts a round: enqueues copies of accepted work from this GPU to the staging memory; returns
   * the number of pieces, of which the last may be cut.
   */
  int read(CudaStream here) {
    if (failure() == null && there.hasLeft()) {
      fail(Cause.CLOSED, "the peer has closed its wire");
      wire.failed(1);
    }
    return walk(here, true);
  }

  /** Ends a round: enqueues copies of the same bytes from the staging memory to the peer's GPU. */
  void write(CudaStream stream) {
    walk(stream, false);
  }

  private int walk(CudaStream stream, boolean reading) {
    if (failure() != null) {
      return 0;
    }
    int pieces = 0;
    long work = copied;
    long begin = copiedBytes;
    long staged = 0;
    while (work < accepted() && staged < staging.byteSize()) {
      int slot = slot(work);
      long part = Math.min(bytes(slot) - begin, staging.byteSize() - staged);
      if (part > 0) {
        copy(slot, begin, staging.asSlice(staged, part), stream, reading);
      }
      staged += part;
      begin += part;
      pieces++;
      if (begin == bytes(slot)) {
        work++;
        begin = 0;
      }
    }
    if (!reading) {
      copied = work;
      copiedBytes = begin;
    }
    return pieces;
  }

  private void copy(int slot, long begin, MemorySegment part, CudaStream stream, boolean reading) {
    CopyingRegion from = Objects.requireNonNull(local(slot), "a put has regions");
    CopyingRegion to = Objects.requireNonNull(remote(slot), "a put has regions");
    if (reading) {
      DeviceCopies.toHost(part, from.memory().address() + localOffset(slot) + begin, stream);
      return;
    }
    CopyingRegion target = there.region(to.number());
    // Null: the peer is closing its wire, so the next round fails the lane.
    if (target != null) {
      DeviceCopies.toDevice(target.memory().address() + remoteOffset(slot) + begin, part, stream);
    }
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
    copiedBytes = 0;
  }

  @Override
  public boolean flush() {
    requireOpen();
    return failure() != null || delivered() == accepted();
  }
}
