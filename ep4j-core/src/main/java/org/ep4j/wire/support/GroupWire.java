package org.ep4j.wire.support;

import java.lang.foreign.SegmentAllocator;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.Group;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * Common part of all wires: the connected ranks, the number of failed lanes, and the open state.
 * Any thread may read.
 */
public abstract class GroupWire implements Wire {
  /** The ranks that the wire connects. */
  protected final Group group;

  /** What the wire was opened with. */
  protected final WireConfig config;

  private final String name;
  private final AtomicInteger failedLanes = new AtomicInteger();
  private volatile boolean closed;

  /** Null on a wire that {@link org.ep4j.wire.Wires} has not opened. Set before the first poll. */
  private @Nullable LaneNotices notices;

  /** An open wire between the ranks of a group. */
  protected GroupWire(String name, Group group, WireConfig config) {
    this.name = name;
    this.group = group;
    this.config = config;
  }

  @Override
  public final String name() {
    return name;
  }

  @Override
  public final int rank() {
    return group.rank();
  }

  @Override
  public final int size() {
    return group.size();
  }

  @Override
  public final WireConfig config() {
    return config;
  }

  @Override
  public final int failedLanes() {
    return failedLanes.get();
  }

  /** Adds to the number of failed lanes. */
  public final void failed(int lanes) {
    failedLanes.addAndGet(lanes);
  }

  /**
   * From now on a lane that fails on one rank fails on its peer too: over a path that is cut, only
   * a rank that sends would notice it. Called once, before the wire is used, and closed with it.
   */
  public final void exchange(LaneNotices opened) {
    notices = opened;
  }

  /**
   * Notifies the peer of a lane that has failed on this rank. A peer that has closed its wire or
   * has departed needs no notice.
   */
  public final void report(LaneFailure failure) {
    LaneNotices open = notices;
    Cause cause = failure.cause();
    if (open != null && (cause == Cause.LOST || cause == Cause.PROTOCOL)) {
      open.send(failure.peer(), failure.lane(), failure.text());
    }
  }

  /** Number of notices of peers so far; cheap enough for each idle poll. */
  public final int reports() {
    LaneNotices open = notices;
    return open == null ? 0 : open.count();
  }

  /** What a peer has reported of its end of a lane; null if nothing. */
  public final @Nullable String reported(int peer, int lane) {
    LaneNotices open = notices;
    String text = open == null ? null : open.text(peer, lane);
    return text == null ? null : "rank %d has lost it: %s".formatted(peer, text);
  }

  /** State of a peer according to the group, for the text of a failure. */
  public final String status(int peer) {
    String report = group.deathReport(peer);
    return report == null ? "the group still counts rank " + peer + " as alive" : report;
  }

  /** Memory of a region. A rank without memory tells the others, which wait for its region. */
  protected final WireMemory hostMemory(SegmentAllocator owned, long bytes, Duration timeout) {
    try {
      return WireMemory.host(owned.allocate(bytes, 64));
    } catch (OutOfMemoryError e) {
      String error = "no memory for a region of " + bytes + " bytes: " + e.getMessage();
      CollectiveStep.exchange(group, error, new byte[0], timeout);
      throw e; // not reached: the step reports the error on this rank, too
    }
  }

  /** Rejects calls after close. */
  public final void requireOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.WIRE_CLOSED, "the wire of rank " + rank() + " is closed: open another one");
    }
  }

  /** Closes the wire. Returns whether it was open. */
  protected final synchronized boolean shut() {
    boolean open = !closed;
    closed = true;
    LaneNotices exchanged = notices;
    if (open && exchanged != null) {
      exchanged.close();
    }
    return open;
  }

  /**
   * Why peers cannot reach memory over this wire, with the code of the error; empty if they can.
   */
  protected final String unreachable(WireMemory memory) {
    return memory.onHost() || carriesDeviceMemory()
        ? ""
        : ErrorCode.WIRE_MEMORY_UNREACHABLE.message(
            "wire '%s' cannot let peers reach device memory: copy it to host memory"
                .formatted(name));
  }

  /** Rejects memory that this wire cannot read. */
  protected final void requireReadable(WireMemory memory) {
    if (!memory.onHost() && !carriesDeviceMemory()) {
      throw new WireException(
          ErrorCode.WIRE_MEMORY_UNREACHABLE,
          "wire '%s' cannot read device memory: copy it to host memory and register that"
              .formatted(name));
    }
  }
}
