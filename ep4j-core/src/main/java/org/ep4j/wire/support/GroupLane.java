package org.ep4j.wire.support;

import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.jspecify.annotations.Nullable;

/**
 * A lane of a {@link GroupWire} that keeps work until the peer has acknowledged it, within the
 * in-flight limit. It checks work before acceptance, stores it, and handles the failure of the
 * lane.
 *
 * <p>Work {@code n} is at index {@code n - 1} of a ring from its acceptance until its delivery, and
 * refers to the caller's bytes: {@code delivered <= accepted}. Each wire tracks the progress in
 * between. The thread of the progress context owns the ring and the counts; any thread may read the
 * failure.
 *
 * @param <R> regions of the wire
 */
public abstract class GroupLane<R extends GroupRegion> implements Lane {
  private final GroupWire wire;
  private final InFlightLimit window;
  private final int peer;
  private final int index;
  private final int mask;

  // The ring. An add has no regions; its amount is stored as the local offset.
  private final @Nullable GroupRegion[] local;
  private final long[] localOffset;
  private final @Nullable GroupRegion[] remote;
  private final long[] remoteOffset;
  private final long[] bytes;
  private final int[] counter;

  private long accepted;
  private long delivered;
  private volatile @Nullable LaneFailure failure;

  /** A lane whose work takes room in an in-flight limit. */
  protected GroupLane(GroupWire wire, InFlightLimit window, int peer, int index) {
    this.wire = wire;
    this.window = window;
    this.peer = peer;
    this.index = index;
    int capacity = capacity(wire.config());
    mask = capacity - 1;
    local = new GroupRegion[capacity];
    localOffset = new long[capacity];
    remote = new GroupRegion[capacity];
    remoteOffset = new long[capacity];
    bytes = new long[capacity];
    counter = new int[capacity];
  }

  /** Entries of a ring for all work that may be in flight: a power of two. */
  private static int capacity(WireConfig config) {
    int max = config.operationsInFlight();
    return max == 1 ? 1 : Integer.highestOneBit(max - 1) << 1;
  }

  /** Returns the region as one of this wire, and rejects a closed or foreign one. */
  protected abstract R own(Region region);

  /** Whether the peer is connected. */
  protected boolean connected() {
    return true;
  }

  /** Called after work was accepted and stored at {@code slot}. */
  protected void kept(int slot) {}

  /** Stores valid work for which there is room; returns its number. */
  private long keep(
      @Nullable R source, long from, @Nullable R target, long to, long size, int count) {
    int slot = slot(accepted);
    local[slot] = source;
    localOffset[slot] = from;
    remote[slot] = target;
    remoteOffset[slot] = to;
    bytes[slot] = size;
    counter[slot] = count;
    accepted++;
    kept(slot);
    return accepted;
  }

  /** Ring slot of the work that follows {@code before} pieces of work. */
  protected final int slot(long before) {
    return (int) before & mask;
  }

  /** Entries of the ring. */
  protected final int slots() {
    return mask + 1;
  }

  /** Source region; null for an add. */
  public final @Nullable R local(int slot) {
    return at(local, slot);
  }

  /** Offset in the source region; the amount for an add. */
  public final long localOffset(int slot) {
    return localOffset[slot];
  }

  /** Target region; null for an add. */
  public final @Nullable R remote(int slot) {
    return at(remote, slot);
  }

  /** Offset in the peer's part of the target region. */
  public final long remoteOffset(int slot) {
    return remoteOffset[slot];
  }

  /** Number of bytes. */
  public final long bytes(int slot) {
    return bytes[slot];
  }

  /** Counter of the peer that grows. */
  public final int counter(int slot) {
    return counter[slot];
  }

  @SuppressWarnings("unchecked") // Only regions from own() are kept.
  private @Nullable R at(@Nullable GroupRegion[] regions, int slot) {
    return (R) regions[slot];
  }

  /** Work up to this number has taken effect: its bytes and its slot are free. */
  protected final void deliver(long upTo) {
    while (delivered < upTo) {
      forget(slot(delivered));
      delivered++;
    }
  }

  private void forget(int slot) {
    window.release(bytes[slot]);
    local[slot] = null;
    remote[slot] = null;
  }

  /** Fails the lane, once, at both ends; the local bytes of its work are no longer read. */
  protected void fail(Cause cause, String text) {
    for (long work = delivered; work < accepted; work++) {
      forget(slot(work));
    }
    LaneFailure found = new LaneFailure(peer, index, cause, text, delivered, accepted);
    failure = found;
    wire.report(found);
  }

  /** Rejects calls after close. */
  protected final void requireOpen() {
    wire.requireOpen();
  }

  @Override
  public final long put(
      Region from, long fromOffset, Region to, long toOffset, long size, int count) {
    wire.requireOpen();
    R source = own(from);
    R target = own(to);
    WireArguments.put(
        fromOffset, source.bytes(), toOffset, target.bytes(peer), size, count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!connected() || !window.take(size)) {
      return BACK_PRESSURED;
    }
    return keep(source, fromOffset, target, toOffset, size, count);
  }

  @Override
  public final long add(int count, long value) {
    wire.requireOpen();
    WireArguments.add(count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!connected() || !window.take(0)) {
      return BACK_PRESSURED;
    }
    return keep(null, value, null, 0, 0, count);
  }

  @Override
  public final long accepted() {
    return accepted;
  }

  @Override
  public final long delivered() {
    return delivered;
  }

  @Override
  public final int peer() {
    return peer;
  }

  @Override
  public final int index() {
    return index;
  }

  @Override
  public final @Nullable LaneFailure failure() {
    return failure;
  }
}
