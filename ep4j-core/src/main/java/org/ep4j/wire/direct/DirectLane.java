package org.ep4j.wire.direct;

import java.lang.foreign.MemorySegment;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A lane whose work completes before its call returns: copy, then count with release order. Nothing
 * is ever in flight or held back.
 */
final class DirectLane implements Lane {
  private final DirectWire wire;
  private final int peer;
  private final int index;
  private final MemorySegment control;
  private final Counters counters;
  private long accepted;

  /** Notices of peers that have been looked at. */
  private int looked;

  private volatile @Nullable LaneFailure failure;

  DirectLane(DirectWire wire, int peer, int index, MemorySegment control) {
    this.wire = wire;
    this.peer = peer;
    this.index = index;
    this.control = control;
    this.counters = DirectControlLayout.counters(control);
  }

  @Override
  public int peer() {
    return peer;
  }

  @Override
  public int index() {
    return index;
  }

  @Override
  public long put(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter) {
    wire.requireOpen();
    MemorySegment source = DirectRegion.of(local, wire).own();
    MemorySegment target = DirectRegion.of(remote, wire).part(peer);
    WireArguments.put(
        localOffset,
        source.byteSize(),
        remoteOffset,
        target.byteSize(),
        bytes,
        counter,
        wire.config());
    if (!usable()) {
      return FAILED;
    }
    try {
      MemorySegment.copy(source, localOffset, target, remoteOffset, bytes);
    } catch (IllegalStateException e) {
      if (!source.scope().isAlive()) {
        throw e;
      }
      fail(Cause.PROTOCOL, "the peer has freed the memory of a region that it had exposed");
      return FAILED;
    }
    if (counter != NO_COUNTER) {
      counters.add(counter, 1);
    }
    return ++accepted;
  }

  @Override
  public long add(int counter, long value) {
    wire.requireOpen();
    WireArguments.add(counter, wire.config());
    if (!usable()) {
      return FAILED;
    }
    counters.add(counter, value);
    return ++accepted;
  }

  private boolean usable() {
    if (failure == null && DirectControlLayout.isClosed(control)) {
      fail(Cause.CLOSED, "the peer has closed its wire");
    }
    return failure == null;
  }

  /** Checks the state of the peer. Returns whether the lane has failed in this call. */
  boolean look() {
    if (failure != null) {
      return false;
    }
    // A peer that closes its wire and leaves does so in this order, so the closed state is read
    // after the departure.
    if (!wire.group().isAlive(peer) && usable()) {
      fail(Cause.DEPARTED, String.valueOf(wire.group().deathReport(peer)));
    }
    int now = wire.reports();
    if (now != looked && usable()) {
      looked = now;
      String reported = wire.reported(peer, index);
      if (reported != null) {
        fail(Cause.LOST, reported);
      }
    }
    return !usable();
  }

  private void fail(Cause cause, String text) {
    LaneFailure found = new LaneFailure(peer, index, cause, text, accepted, accepted);
    failure = found;
    wire.failed(1);
    wire.report(found);
  }

  @Override
  public boolean flush() {
    wire.requireOpen();
    return true;
  }

  @Override
  public long accepted() {
    return accepted;
  }

  @Override
  public long delivered() {
    return accepted;
  }

  @Override
  public @Nullable LaneFailure failure() {
    return failure;
  }
}
