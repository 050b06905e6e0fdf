package org.ep4j.wire.support;

import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.jspecify.annotations.Nullable;

/**
 * A lane of a {@link GroupWire} that keeps work until the peer has said that it took effect, as far
 * as a window reaches: what is looked at before work is accepted, and how the lane ends.
 *
 * @param <R> regions of the wire
 */
public abstract class GroupLane<R extends GroupRegion> implements Lane {
  private final GroupWire wire;
  private final Window window;
  private final int peer;
  private final int index;
  private volatile @Nullable LaneFailure failure;

  /** A lane whose work takes room in a window. */
  protected GroupLane(GroupWire wire, Window window, int peer, int index) {
    this.wire = wire;
    this.window = window;
    this.peer = peer;
    this.index = index;
  }

  /** Entries of a ring for all work that may be under way: a power of two. */
  protected static int capacity(WireConfig config) {
    int most = config.operationsInFlight();
    return most == 1 ? 1 : Integer.highestOneBit(most - 1) << 1;
  }

  /** The region as one of this wire that may be used; refuses others. */
  protected abstract R own(Region region);

  /** Whether there is a way to the peer by now. */
  protected boolean connected() {
    return true;
  }

  /**
   * Keeps work that is sound, and for which there is room.
   *
   * @param source null for an add, like {@code target}
   * @param from where in the source; by how much, for an add
   * @return number of the work
   */
  protected abstract long accept(
      @Nullable R source, long from, @Nullable R target, long to, long size, int count);

  /** Gives back the room of a piece of work. */
  protected final void giveBack(long size) {
    window.giveBack(size);
  }

  /** Ends the lane. */
  protected final void failed(Cause cause, String text, long delivered, long accepted) {
    failure = new LaneFailure(peer, index, cause, text, delivered, accepted);
  }

  /** Refuses to work for who has closed the wire. */
  protected final void requireOpen() {
    wire.requireOpen();
  }

  @Override
  public final long put(
      Region from, long fromOffset, Region to, long toOffset, long size, int count) {
    wire.requireOpen();
    R source = own(from);
    R target = own(to);
    Checks.put(
        fromOffset, source.bytes(), toOffset, target.bytes(peer), size, count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!connected() || !window.take(size)) {
      return BACK_PRESSURED;
    }
    return accept(source, fromOffset, target, toOffset, size, count);
  }

  @Override
  public final long add(int count, long value) {
    wire.requireOpen();
    Checks.add(count, wire.config());
    if (failure != null) {
      return FAILED;
    }
    if (!connected() || !window.take(0)) {
      return BACK_PRESSURED;
    }
    return accept(null, value, null, 0, 0, count);
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
