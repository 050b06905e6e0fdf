package org.ep4j.cuda.internode;

import java.time.Duration;
import java.util.List;
import org.ep4j.WirePath;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.Limits;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.RailBounds;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a rank's GPU with ranks of other nodes: the transport (a wire with its proxy,
 * or the backend's own device functions) and the tables of {@code kernels/internode/internode.cuh}
 * on the device.
 */
public final class InternodeConnection implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final Nodes nodes;
  private final int rank;
  private final InternodeLayout layout;
  private final int pendingCommands;

  /** Whether ranks exchange tokens by rails: those of high throughput. */
  private final boolean usesRails;

  private final RailBounds room;

  private final int maxPartners;
  private final InternodeLink link;
  private final InternodeTable table;

  /** Number of the last quiesce round; 0 for none. */
  private long quiesceRounds;

  private InternodeConnection(
      Group group,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      InternodeSizes sizes) {
    this.nodes = nodes;
    rank = group.rank();
    layout = new InternodeLayout(group.size(), sizes);
    pendingCommands = sizes.pendingCommands();
    usesRails = config.highThroughput().isPresent();
    room = RailRoom.bounds(config, nodes);
    maxPartners = room.maxPartners();
    int partners = room.partners(rank);
    boolean complete = false;
    try {
      link = owned.own(link(group, device, backend, config, nodes, partners));
      table =
          backend
              .world()
              .together(
                  "the table of the nodes",
                  () ->
                      owned.own(
                          new InternodeTable(
                              device, link, layout, nodes, rank, partners, usesRails)));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Connects the ranks of a buffer that spans several nodes; collective.
   *
   * @param backend backend of the buffer, with all ranks
   */
  public static InternodeConnection open(
      Group group,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      InternodeSizes sizes) {
    return new InternodeConnection(group, device, backend, config, nodes, sizes);
  }

  private InternodeLink link(
      Group group,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      int partners) {
    String wire = WireChoice.of(backend.name(), config.wire());
    if (Limits.masking(config) && wire.equals(WireName.BACKEND)) {
      throw maskingIsRefused(backend);
    }
    // Windows of a library have equal size on all ranks.
    return wire.equals(WireName.BACKEND)
        ? new LibraryLink(
            group,
            device,
            backend,
            nodes,
            layout.sizes(maxPartners, maxPartners),
            LibraryLanes.agreed(
                group,
                backend
                    .world()
                    .together(
                        "the lanes of wire 'backend'",
                        () -> LibraryLanes.of(config.wireOptions(), System.getenv())),
                config.timeout()),
            config.timeout())
        : new WireLink(
            group,
            backend.world(),
            backend
                .world()
                .together(
                    "the settings of the proxy",
                    () ->
                        InternodeWire.of(
                            wire, config.wireOptions(), config.timeout(), System.getenv())),
            nodes,
            layout.sizes(partners, maxPartners),
            pendingCommands);
  }

  /** A library reports no lost rank, and its puts to a rank that takes none may wait for ever. */
  private static InvalidArgumentException maskingIsRefused(Backend backend) {
    return new InvalidArgumentException(
        ErrorCode.CUDA_MASKING_INTERNODE,
        "masking",
        "true, on several nodes by wire '" + WireName.BACKEND + "' of '" + backend.name() + "'",
        "false with this wire, whose puts to a silent rank have no deadline",
        "choose another wire, disable masking, or use the engine 'host'");
  }

  /** The transport between the nodes, as {@link BufferConfig#wire()} names it. */
  public String wire() {
    return link.wire();
  }

  /** Paths of the transport that count bytes. Any thread. */
  public List<WirePath> paths() {
    return link.paths();
  }

  /** Settings of the transport, as {@link BufferConfig#wireOptions()} has them. */
  public WireOptions wireOptions() {
    return link.wireOptions();
  }

  /** The library that kernels must be linked to; null if none. Closed after them. */
  public @Nullable PutTransport transport() {
    return link.transport();
  }

  /** Device address of the {@code InternodeWorld}. */
  public long world() {
    return table.address();
  }

  /** Device address of the node of each rank. */
  public long nodeOf() {
    return table.nodeOf();
  }

  /** Ranks of other nodes that may exchange tokens with this rank, also after a loss. */
  public int partners() {
    return table.partners();
  }

  /** Bytes of a slot. */
  public long slotBytes() {
    return layout.slotBytes;
  }

  /**
   * Whether a transport copies what kernels write locally; false if kernels write to the
   * destination.
   */
  public boolean puts() {
    return link.puts();
  }

  /** The low-latency part of this rank, as a device address. */
  public long lowLatencyPart() {
    return link.incoming() + layout.lowLatency;
  }

  /** The low-latency part of a rank of another node; only if mapped. */
  public long lowLatencyPart(int rank) {
    return link.incoming(rank) + layout.lowLatency;
  }

  /** Offset of low-latency parts in receive memory, the target of puts. */
  public long lowLatencyTarget() {
    return layout.lowLatency;
  }

  /** Device address of the staging for low-latency puts; only with {@link #puts}. */
  public long lowLatencyStaging() {
    return link.outgoing() + layout.staging;
  }

  /** Offset of the staging in the source of puts. */
  public long lowLatencySource() {
    return link.outgoingSource() + layout.staging;
  }

  /** Number of the first counter for low latency, equal on all ranks. */
  public int firstLowLatencyCounter() {
    return layout.firstLowLatency(maxPartners);
  }

  /** Device address of the counters of this rank. */
  public long counters() {
    return link.counters();
  }

  /** Whether the proxy has stopped, so that this rank no longer sends. Any thread; cheap. */
  public boolean stopped() {
    return link.stopped();
  }

  /** Why {@code peer} no longer sends or this rank no longer sends; null if neither. Any thread. */
  public @Nullable String problem(int peer) {
    return link.problem(peer);
  }

  /**
   * Tells ranks of other nodes that this rank enters no further operation, if the transport can. No
   * kernel of this rank runs.
   */
  public void publishClosed() {
    link.publishClosed();
  }

  /** Whether a rank of another node has told that it enters no further operation. Any thread. */
  public boolean hasClosed(int peer) {
    return !nodes.together(peer, rank) && link.hasClosed(peer);
  }

  /**
   * Whether the connection supports the loss of these ranks; the same on all others. Transfers of a
   * dead rank must end, but a stopped process may resume. High throughput needs memory for the
   * rails of the others; low latency has none.
   *
   * @return empty, or the reason why not
   */
  public String refusesLoss(boolean[] gone) {
    for (int r = 0; r < gone.length; r++) {
      String refused = gone[r] ? link.refusesLossOf(r) : "";
      if (!refused.isEmpty()) {
        return refused;
      }
    }
    return usesRails ? RailRoom.refuses(nodes, room, gone) : "";
  }

  /** Number of the last {@link #quiesce} round; 0 for none. */
  public long quiesceRounds() {
    return quiesceRounds;
  }

  /**
   * Waits until nothing is in flight between the ranks; called on all survivors while none of them
   * runs a kernel. Allowed next: {@link #beginAnew}, another round, or {@link #close}.
   *
   * @param missing ranks that take no part
   * @param gone those whose transfers must have ended; {@link #refusesLoss} accepts them
   * @param time number of the round: equal on all ranks, above {@link #quiesceRounds} of each
   * @return empty, or the reason why this connection cannot begin anew
   */
  public String quiesce(boolean[] missing, boolean[] gone, long time, Duration timeout) {
    quiesceRounds = time;
    return link.quiesce(missing, gone, time, timeout);
  }

  /**
   * Restores the initial state at the same addresses, without the dead ranks. All survivors have
   * completed {@link #quiesce}, and none sends before all have returned from this method.
   */
  public void beginAnew(boolean[] gone) {
    link.beginAnew();
    table.write(gone);
  }

  /** Sets a word of the low-latency part of this rank; there is no concurrent writer. */
  public void setLowLatencyWord(long offset, long value) {
    link.setIncomingWord(layout.lowLatency + offset, value);
  }

  /**
   * Stops the transport and closes all resources; a second call does nothing. No kernel of this
   * rank, nor of another rank of this process, uses the connection any more.
   *
   * @throws org.ep4j.error.Ep4jException if a thread of the proxy does not end: its resources stay
   *     allocated
   */
  @Override
  public void close() {
    owned.close();
  }

  @Override
  public String toString() {
    return "rank " + rank + " over " + link;
  }
}
