package org.ep4j.wire.support;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;

/** A region of a {@link GroupWire}: its wire, and its length at each rank. */
public abstract class GroupRegion implements Region {
  private final GroupWire wire;
  private final WireMemory memory;
  private final boolean exposed;
  // By rank; empty until the peers have reported, or if the region is local.
  private long[] sizes = {};
  private volatile boolean closed;

  /**
   * A region of this rank's memory.
   *
   * @param exposed whether peers can put into it
   */
  protected GroupRegion(GroupWire wire, WireMemory memory, boolean exposed) {
    this.wire = wire;
    this.memory = memory;
    this.exposed = exposed;
  }

  /** Whether the region belongs to that wire and is open. */
  protected final boolean isOf(GroupWire other) {
    return wire == other && !closed;
  }

  /** Lengths reported by the peers, by rank. */
  public final void sizes(long[] results) {
    sizes = results;
  }

  /** Closes the region. Returns whether it was open. */
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
      throw new IllegalUseException(
          ErrorCode.REGION_NOT_SHARED,
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
