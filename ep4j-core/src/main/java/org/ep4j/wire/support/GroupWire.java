package org.ep4j.wire.support;

import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;

/**
 * What wires have in common, whatever carries the bytes: whom they connect, how many lanes have
 * failed, whether they are open. Any thread may ask.
 */
public abstract class GroupWire implements Wire {
  /** The ranks that the wire connects. */
  protected final Group group;

  /** What the wire was opened with. */
  protected final WireConfig config;

  private final String name;
  private final AtomicInteger failedLanes = new AtomicInteger();
  private volatile boolean closed;

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

  /** Counts lanes that have failed. */
  public final void failed(int lanes) {
    failedLanes.addAndGet(lanes);
  }

  /** What the group says of a peer, for the text of a failure. */
  public final String status(int peer) {
    String report = group.deathReport(peer);
    return report == null ? "the group still counts rank " + peer + " as alive" : report;
  }

  /** Refuses to work for who has closed the wire. */
  public final void requireOpen() {
    if (closed) {
      throw new IllegalStateException("the wire of rank " + rank() + " is closed");
    }
  }

  /** The wire is closed from here on; whether it was open. */
  protected final synchronized boolean shut() {
    boolean open = !closed;
    closed = true;
    return open;
  }

  /** Why peers cannot reach memory over this wire; empty if they can. */
  protected final String unreachable(WireMemory memory) {
    return memory.onHost() || carriesDeviceMemory()
        ? ""
        : "wire '%s' cannot let peers reach device memory: stage it through host memory"
            .formatted(name);
  }

  /** Refuses memory that this wire cannot read. */
  protected final void requireReadable(WireMemory memory) {
    if (!memory.onHost() && !carriesDeviceMemory()) {
      throw new WireException(
          "wire '%s' cannot read device memory: copy it to host memory and register that"
              .formatted(name));
    }
  }
}
