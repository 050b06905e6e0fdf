package org.ep4j.wire.support;

import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;

/** A region of a {@link GroupWire}: whose it is, and how long it is at each rank. */
public abstract class GroupRegion implements Region {
  private final GroupWire wire;
  private final WireMemory memory;
  private final boolean exposed;
  // By rank; empty until the peers have told, or if they know nothing of it.
  private long[] sizes = {};
  private volatile boolean closed;

  /**
   * One of this rank's memory.
   *
   * @param exposed whether the peers can put into it
   */
  protected GroupRegion(GroupWire wire, WireMemory memory, boolean exposed) {
    this.wire = wire;
    this.memory = memory;
    this.exposed = exposed;
  }

  /** Whether it is of that wire and may be used. */
  protected final boolean isOf(GroupWire other) {
    return wire == other && !closed;
  }

  /** What the peers have told, by rank. */
  public final void sizes(long[] results) {
    sizes = results;
  }

  /** The region is closed from here on; whether it was open. */
  protected final synchronized boolean shut() {
    boolean open = !closed;
    closed = true;
    return open;
  }

  @Override
  public final long bytes() {
    return memory.bytes();
  }

  @Override
  public final long bytes(int rank) {
    if (!exposed) {
      throw new IllegalStateException(
          "the region is registered on this rank only: make it with allocate() or expose()");
    }
    return sizes[rank];
  }

  @Override
  public final boolean exposed() {
    return exposed;
  }

  @Override
  public final WireMemory memory() {
    return memory;
  }
}
