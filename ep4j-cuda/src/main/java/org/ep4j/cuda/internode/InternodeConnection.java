package org.ep4j.cuda.internode;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.ep4j.WirePath;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.Limits;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.RailBounds;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.PeerLostException;
import org.ep4j.memory.Participants;
import org.ep4j.wire.WireException;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a rank's GPU with ranks of other nodes: the transport (a wire with its proxy,
 * or the backend's own device functions) and the tables of {@code kernels/internode/internode.cuh}
 * on the device.
 *
 * <p>When ranks return, another transport replaces the first one: {@link #stage}, then {@link
 * #commit} once all ranks have theirs. The tables stay where they are.
 */
public final class InternodeConnection implements AutoCloseable {
  private static final String TABLE = "the table of the nodes";

  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final Backend backend;
  private final BufferConfig config;
  private final Nodes nodes;
  private final int rank;
  private final InternodeLayout layout;
  private final int pendingCommands;

  /** Whether ranks exchange tokens by rails: those of high throughput. */
  private final boolean usesRails;

  private final RailBounds room;

  private final int maxPartners;
  private final InternodeTable table;

  /** Held by threads that ask the transport, and while another one replaces it. */
  private final Object asking = new Object();

  /** Volatile: any thread reads whether it has stopped. */
  private volatile InternodeLink link;

  /** The next transport until {@link #commit}. */
  private @Nullable InternodeLink staged;

  /** Number of the last quiesce round; 0 for none. */
  private long quiesceRounds;

  private InternodeConnection(
      Participants participants,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      InternodeSizes sizes) {
    this.device = device;
    this.backend = backend;
    this.config = config;
    this.nodes = nodes;
    rank = participants.rank();
    layout = new InternodeLayout(participants.ranks(), sizes);
    pendingCommands = sizes.pendingCommands();
    usesRails = config.highThroughput().isPresent();
    room = RailRoom.bounds(config, nodes);
    maxPartners = room.maxPartners();
    int partners = room.partners(rank);
    boolean complete = false;
    try {
      InternodeLink first = link(participants, backend.world());
      link = first;
      owned.own(() -> link.close());
      owned.own(this::unstage);
      table =
          backend
              .world()
              .together(
                  TABLE,
                  () ->
                      owned.own(
                          new InternodeTable(
                              device, first, layout, nodes, rank, partners, usesRails)));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /**
   * Connects the ranks of a buffer that spans several nodes; collective, with {@link #stage} on
   * ranks that have the buffer.
   *
   * @param backend backend of the buffer, with all participants
   * @param config as the ranks have compared it
   */
  public static InternodeConnection open(
      Participants participants,
      CudaDevice device,
      Backend backend,
      BufferConfig config,
      Nodes nodes,
      InternodeSizes sizes) {
    return new InternodeConnection(participants, device, backend, config, nodes, sizes);
  }

  /**
   * Opens a transport; collective.
   *
   * @param world the participants
   */
  private InternodeLink link(Participants participants, BackendWorld world) {
    String wire =
        world.together(
            "the choice of the wire", () -> WireChoice.of(backend.name(), config.wire()));
    if (Limits.masking(config) && wire.equals(WireName.BACKEND)) {
      throw maskingIsRefused(backend);
    }
    if (!hasNewcomers(participants)) {
      return link(wire, participants, world, false);
    }
    // Groups of a recovery are closed before the transport that they have opened.
    Group own = participants.group().survivors(config.timeout());
    boolean complete = false;
    try {
      requireAll(own, participants);
      Participants all = new Participants(own, participants.numbers(), participants.newcomers());
      InternodeLink opened = link(wire, all, world, true);
      complete = true;
      return opened;
    } finally {
      if (!complete) {
        own.close();
      }
    }
  }

  private static boolean hasNewcomers(Participants participants) {
    for (int r = 0; r < participants.ranks(); r++) {
      if (participants.isNew(r)) {
        return true;
      }
    }
    return false;
  }

  /** The same on all ranks: they have made the group together. */
  private static void requireAll(Group own, Participants participants) {
    if (own.size() != participants.group().size()) {
      throw new PeerLostException(
          ErrorCode.REJOINING_RANK_LOST,
          "connecting the nodes: "
              + (participants.group().size() - own.size())
              + " of the ranks were lost meanwhile; the buffer is unchanged: start them again and"
              + " repeat readmit()",
          -1);
    }
  }

  private InternodeLink link(
      String wire, Participants participants, BackendWorld world, boolean own) {
    Group group = participants.group();
    int partners = room.partners(rank);
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
                world.together(
                    "the lanes of wire 'backend'",
                    () -> LibraryLanes.of(config.wireOptions(), System.getenv())),
                config.timeout()),
            config.timeout())
        : new WireLink(
            participants,
            own,
            world,
            world.together(
                "the settings of the proxy",
                () ->
                    InternodeWire.of(
                        wire, config.wireOptions(), config.timeout(), System.getenv())),
            nodes,
            layout.sizes(partners, maxPartners),
            layout.sizes(maxPartners, maxPartners),
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

  /** The configuration as ranks that return compare it: without what the transport has chosen. */
  public BufferConfig config() {
    return config;
  }

  /** Paths of the transport that count bytes. Any thread. */
  public List<WirePath> paths() {
    synchronized (asking) {
      return link.paths();
    }
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
    synchronized (asking) {
      return link.problem(peer);
    }
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
    synchronized (asking) {
      return !nodes.together(peer, rank) && link.hasClosed(peer);
    }
  }

  /**
   * Whether ranks can return to this connection while others stay lost; the same on all ranks that
   * have the buffer. Lanes and memory are made anew, so no lost rank reaches them over a wire.
   *
   * @param gone ranks that stay lost
   * @return empty, or the reason why not
   */
  public String refusesReadmission(boolean[] gone) {
    if (link.wire().equals(WireName.BACKEND)) {
      return "the wire '"
          + WireName.BACKEND
          + "' between the nodes cannot readmit ranks, because the ranks of the library's"
          + " communicator are fixed: close the buffer on all ranks and open it again, or use"
          + " another wire";
    }
    return usesRails ? RailRoom.refuses(nodes, room, gone) : "";
  }

  /**
   * Opens another transport among the participants, next to the current one; collective, with
   * {@link #open} on ranks that return.
   *
   * @param world the participants
   */
  public void stage(Participants participants, BackendWorld world) {
    unstage();
    staged = link(participants, world);
    Boolean _ = world.together(TABLE, () -> true);
  }

  /**
   * Requires that the kernels of this buffer can use the staged transport.
   *
   * @throws WireException if they would have to reach the other nodes in another way
   */
  public void requireSameMode() {
    if (Objects.requireNonNull(staged, "staged").puts() != link.puts()) {
      throw new WireException(
          ErrorCode.WIRE_FAILED,
          "the nodes are now connected by "
              + staged
              + " in place of "
              + link
              + ", which kernels use in another way: name the wire in BufferConfig.wire");
    }
  }

  /**
   * Replaces the transport by the staged one and closes the old one, whose memory late writers keep
   * to themselves. No kernel of a participant runs. {@link #begin} follows.
   */
  public void commit() {
    InternodeLink old;
    synchronized (asking) {
      old = link;
      link = Objects.requireNonNull(staged, "staged");
      staged = null;
      table.connect(link);
    }
    old.close();
  }

  /** Closes the transport that {@link #stage} has opened and {@link #commit} has not used. */
  public void unstage() {
    InternodeLink unused = staged;
    staged = null;
    if (unused != null) {
      unused.close();
    }
  }

  /**
   * Starts on a transport that no rank has used yet.
   *
   * @param gone dead ranks
   */
  public void begin(boolean[] gone) {
    table.write(gone);
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
