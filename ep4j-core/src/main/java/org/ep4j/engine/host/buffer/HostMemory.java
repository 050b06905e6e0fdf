package org.ep4j.engine.host.buffer;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.Participants;
import org.ep4j.memory.PrivateMemory;
import org.ep4j.memory.SymmetricMemory;

/**
 * The memory of one buffer on one rank, and its views for callers: using a view after the buffer is
 * closed throws an exception and does not crash.
 */
final class HostMemory implements AutoCloseable {
  private final SymmetricMemory symmetric;
  private final PrivateMemory scratch;
  private final Arena views = Arena.ofShared();
  private final MemorySegment region;
  private final MemorySegment scratchView;

  private HostMemory(SymmetricMemory symmetric, PrivateMemory scratch, int rank) {
    this.symmetric = symmetric;
    this.scratch = scratch;
    region = NativeMemory.view(symmetric.address(rank), symmetric.bytes(), views);
    scratchView = NativeMemory.view(scratch.address(), scratch.bytes(), views);
  }

  /** Allocates on every rank; collective. */
  static HostMemory allocate(Group group, Nodes nodes, RegionLayout layout, Duration timeout) {
    int node = nodes.of(group.rank());
    SymmetricMemory symmetric =
        SymmetricMemory.allocate(group, nodes.first(node), nodes.end(node), layout.plan(), timeout);
    return of(symmetric, layout, group.rank());
  }

  /** Allocates on a rank that rejoins; collective with the ranks that have the buffer. */
  static HostMemory rejoin(
      Participants participants, Nodes nodes, RegionLayout layout, Duration timeout) {
    int node = nodes.of(participants.rank());
    SymmetricMemory symmetric =
        SymmetricMemory.rejoin(
            participants, nodes.first(node), nodes.end(node), layout.plan(), timeout);
    return of(symmetric, layout, participants.rank());
  }

  private static HostMemory of(SymmetricMemory symmetric, RegionLayout layout, int rank) {
    boolean done = false;
    try {
      PrivateMemory scratch = PrivateMemory.reserve(layout.scratch.bytes);
      HostMemory memory = new HostMemory(symmetric, scratch, rank);
      done = true;
      return memory;
    } finally {
      if (!done) {
        symmetric.close();
      }
    }
  }

  SymmetricMemory symmetric() {
    return symmetric;
  }

  /** This rank's symmetric region. */
  MemorySegment region() {
    return region;
  }

  /** The memory that {@link ScratchLayout} describes. */
  MemorySegment scratch() {
    return scratchView;
  }

  /** Arena of all views for callers. */
  Arena views() {
    return views;
  }

  /**
   * Closes all views.
   *
   * @throws IllegalStateException while a thread is inside a view
   */
  void closeViews() {
    if (views.scope().isAlive()) {
      views.close();
    }
  }

  @Override
  public void close() {
    // If this throws, the memory stays mapped.
    closeViews();
    ClosingSteps.run(scratch::close, symmetric::close);
  }
}
