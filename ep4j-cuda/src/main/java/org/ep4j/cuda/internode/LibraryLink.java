package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.ep4j.WirePath;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.backend.PutWindow;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.struct.InternodeTransport;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.jspecify.annotations.Nullable;

/**
 * Device functions of the backend's library that kernels call: receive memory, outgoing memory and
 * counters are one window in GPU memory.
 *
 * <p>Libraries do not report failures. Waits end by their deadline, or because the group reports a
 * death. Data that a dead rank has put may still arrive, so ranks cannot be excluded.
 */
final class LibraryLink implements InternodeLink {
  /** Granularity of memory in a window, and alignment of backend memory. */
  private static final long UNIT = 256;

  /** How long closing ranks wait for ranks whose last counts may still be in flight. */
  private static final Duration PARTING = Duration.ofSeconds(5);

  private final ResourceStack owned = new ResourceStack();
  private final Group group;
  private final Nodes nodes;
  private final Backend backend;
  private final InternodeMemorySizes sizes;
  private final LibraryLanes lanes;
  private final PutShape shape;
  private final long outgoing;
  private final PutWindow window;
  private final PutTransport transport;
  private final LibraryQuiesce quiesce;
  private boolean closed;

  /**
   * Requests the transport from the backend; collective.
   *
   * @param sizes sizes, equal on all ranks
   * @param lanes lanes, equal on all ranks
   * @throws org.ep4j.error.InvalidArgumentException on all ranks if the transport has fewer lanes
   * @throws EngineUnavailableException on all ranks if the backend has no transport on one;
   *     contains the reason and the remedy
   */
  LibraryLink(
      Group group,
      CudaDevice device,
      Backend backend,
      Nodes nodes,
      InternodeMemorySizes sizes,
      LibraryLanes lanes,
      Duration timeout) {
    this.group = group;
    this.nodes = nodes;
    this.backend = backend;
    this.sizes = sizes;
    this.lanes = lanes;
    outgoing = whole(sizes.incomingBytes());
    shape = shape(sizes, lanes.count());
    boolean complete = false;
    try {
      window = owned.own(PutWindow.open(group, backend, intranode(), shape, timeout));
      transport = offered();
      lanes.requireEnough(transport);
      quiesce = backend.world().together("kernels of its library", () -> quiesce(device));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** The window of all memory. */
  private static PutShape shape(InternodeMemorySizes sizes, int lanes) {
    return new PutShape(windowBytes(sizes), lanes, sizes.counters());
  }

  private static long windowBytes(InternodeMemorySizes sizes) {
    return whole(sizes.incomingBytes()) + whole(sizes.outgoingBytes());
  }

  /** Bytes of the window with its counters, which do not depend on the lanes. */
  static long regionBytes(InternodeMemorySizes sizes) {
    return shape(sizes, LibraryLanes.DEFAULT).regionBytes();
  }

  private static long whole(long bytes) {
    return Math.ceilDiv(bytes, UNIT) * UNIT;
  }

  private boolean[] intranode() {
    boolean[] intranode = new boolean[group.size()];
    for (int r = 0; r < intranode.length; r++) {
      intranode[r] = nodes.together(r, group.rank());
    }
    return intranode;
  }

  private PutTransport offered() {
    PutTransport offered = window.transport();
    if (offered == null) {
      throw new EngineUnavailableException(
          ErrorCode.BACKEND_NO_TRANSPORT,
          "backend '"
              + backend.name()
              + "' has no transport between nodes, which wire '"
              + WireName.BACKEND
              + "' needs: choose backend 'nccl' or 'nvshmem', or another wire. "
              + window.obstacle());
    }
    return offered;
  }

  private LibraryQuiesce quiesce(CudaDevice device) {
    return owned.own(
        new LibraryQuiesce(
            device, transport, lanes.count(), sizes.quiesceCounter(), this::describe));
  }

  @Override
  public String wire() {
    return WireName.BACKEND;
  }

  @Override
  public WireOptions wireOptions() {
    return WireOptions.builder().lanes(lanes.count()).build();
  }

  @Override
  public List<WirePath> paths() {
    return List.of();
  }

  @Override
  public long incoming() {
    return window.memory().address();
  }

  @Override
  public long incoming(int rank) {
    return 0;
  }

  @Override
  public boolean puts() {
    return true;
  }

  @Override
  public long outgoing() {
    return incoming() + outgoing;
  }

  @Override
  public long outgoingSource() {
    return outgoing;
  }

  @Override
  public long counters() {
    return incoming() + shape.signalWords();
  }

  @Override
  public int lanesPerRing() {
    return 1;
  }

  @Override
  public PutTransport transport() {
    return transport;
  }

  @Override
  public void describe(InternodeTransport to) {
    to.counters.set(counters());
    to.library.set(transport.library());
    to.window.set(transport.window());
    to.words.set(shape.signalWords());
    // Rings are lanes of the library; other fields of the proxy are unused.
    to.rings.rings.set(lanes.count());
  }

  @Override
  public boolean stopped() {
    return false;
  }

  @Override
  public @Nullable String problem(int peer) {
    return null;
  }

  /** Hosts send nothing over a library. */
  @Override
  public void publishClosed() {}

  @Override
  public boolean hasClosed(int peer) {
    return false;
  }

  @Override
  public String refusesLossOf(int rank) {
    return "rank "
        + rank
        + " is gone, but puts of its kernels by backend '"
        + backend.name()
        + "' may still arrive";
  }

  @Override
  public String quiesce(boolean[] missing, boolean[] gone, long time, Duration timeout) {
    int node = nodes.of(group.rank());
    return quiesce.await(
        group.rank(), group.size(), nodes.first(node), nodes.end(node), time, timeout);
  }

  @Override
  public void beginAnew() {
    window.memory().zero(0, sizes.incomingBytes());
    quiesce.clear(sizes.quiesceCounter());
  }

  @Override
  public void setIncomingWord(long offset, long value) {
    window.memory().copyFrom(offset, MemorySegment.ofArray(new long[] {value}));
  }

  /** Closes all resources; a second call does nothing. */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    part();
    owned.close();
  }

  private void part() {
    try {
      group.barrier(PARTING);
    } catch (GroupException | IllegalStateException e) {
      // Dead or missing ranks send no more.
    }
  }

  @Override
  public String toString() {
    return transport.text();
  }
}
