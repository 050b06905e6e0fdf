package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.ep4j.WirePath;
import org.ep4j.config.WireOptions;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.RegisteredMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.internode.proxy.Proxy;
import org.ep4j.cuda.internode.proxy.ProxyConfig;
import org.ep4j.cuda.struct.InternodeTransport;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.Ep4jException;
import org.ep4j.memory.PageArena;
import org.ep4j.memory.Participants;
import org.ep4j.wire.Counters;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * A wire whose memory kernels access, and the proxy that drives the wire.
 *
 * <p>The memory is host memory, or GPU memory if the wire supports it: outgoing memory then follows
 * receive memory. Counters are always host memory.
 *
 * <p>If the wire's memory of other ranks can be mapped, kernels write it directly; otherwise they
 * write outgoing memory and the proxy puts it. The mode is the same on all ranks, as is the kind of
 * wire.
 */
final class WireLink implements InternodeLink {
  /** All resources except the proxy, whose threads use them. */
  private final ResourceStack owned = new ResourceStack();

  private final Participants participants;
  private final Nodes nodes;
  private final BackendWorld world;
  private final CudaDevice device;
  private final InternodeWire settings;

  /** Commands that may wait for a rank that takes none. */
  private final int pendingCommands;

  /** Counters that are cleared when the link begins anew. */
  private final int cleared;

  /**
   * Counter that tells that rank 0 has closed, 1 for each of its lanes; those of the other ranks
   * follow.
   */
  private final int closedCounter;

  /** Numbers the ranks as the buffer does; lanes to ranks that take no part have failed. */
  private final Wire wire;

  private final ReceiveMemory incoming;

  /** Receive memory of each rank as a device address; 0 if not mapped or not needed. */
  private final long[] mapped;

  private final boolean puts;
  private final long outgoing;
  private final long outgoingSource;
  private final long counters;

  /** Source region of the proxy's puts. */
  private final Region source;

  private final InternodeQuiesce quiesce;
  private final LaneLosses losses;

  /** Volatile: any thread reads its state. */
  private volatile Proxy proxy;

  /**
   * Opens the wire among the participants; collective.
   *
   * @param own whether this link closes their group
   * @param largest sizes of a rank with the largest number of partners
   */
  WireLink(
      Participants participants,
      boolean own,
      BackendWorld world,
      InternodeWire settings,
      Nodes nodes,
      InternodeMemorySizes sizes,
      InternodeMemorySizes largest,
      int pendingCommands) {
    this.participants = participants;
    this.nodes = nodes;
    this.world = world;
    device = world.device();
    this.settings = settings;
    this.pendingCommands = pendingCommands;
    cleared = sizes.quiesceCounter();
    closedCounter = sizes.closedCounter();
    boolean complete = false;
    try {
      if (own) {
        owned.own(participants.group());
      }
      InternodeMemory.requireCounters(sizes.counters());
      WireConfig config =
          world.together(
              "the settings of the wire",
              () -> settings.config(participants.group(), sizes.counters(), bus()));
      Wire opened = owned.own(Wires.open(participants.group(), config));
      wire = numbered(opened, participants);
      losses = LaneLosses.of(wire);
      quiesce = new InternodeQuiesce(wire, sizes.quiesceCounter());
      boolean onDevice = wire.carriesDeviceMemory();
      if (!InternodeMemory.isMapped(wire.name())) {
        InternodeMemory.requireAddressable(largest, onDevice);
      }
      long bytes = sizes.incomingBytes() + (onDevice ? sizes.outgoingBytes() : 0);
      incoming = onDevice ? onDevice(bytes) : onHost(bytes);
      counters = world.together("the counters of the wire", this::registerCounters);
      puts = !reachable();
      settings.requireReach(wire, puts);
      // All ranks of this process have locked their memory by now.
      mapped = world.together("the memory of other nodes", this::mapOthers);
      Outgoing read =
          puts && !onDevice
              ? world.together(
                  sizes.outgoingBytes() + " bytes of outgoing memory",
                  () -> outgoing(sizes.outgoingBytes()))
              : new Outgoing(
                  incoming.region(),
                  puts ? incoming.address() + sizes.incomingBytes() : 0,
                  puts ? sizes.incomingBytes() : 0);
      source = read.region;
      outgoing = read.address;
      outgoingSource = read.offset;
      proxy = firstProxy();
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** The wire with the ranks of the buffer. */
  private static Wire numbered(Wire opened, Participants participants) {
    int ranks = participants.ranks();
    return opened.size() == ranks
        ? opened
        : new RenumberedWire(opened, participants.numbers(), ranks);
  }

  /** Whether the wire connects a rank. */
  private boolean connects(int rank) {
    return !(wire instanceof RenumberedWire some) || some.member(rank) != RenumberedWire.NO_MEMBER;
  }

  /** Receive memory of a rank if it can be mapped; null for ranks that are not connected. */
  private @Nullable MemorySegment mapped(int rank) {
    int member = wire instanceof RenumberedWire some ? some.member(rank) : rank;
    return member == RenumberedWire.NO_MEMBER ? null : incoming.region().mapped(member);
  }

  /**
   * Memory that the wire reads.
   *
   * @param offset of the memory in the region
   */
  private record Outgoing(Region region, long address, long offset) {}

  /** Collective. */
  private ReceiveMemory onDevice(long bytes) {
    return owned.own(new DeviceReceiveMemory(world, wire, bytes, settings.timeout()));
  }

  /** Collective. */
  private ReceiveMemory onHost(long bytes) {
    Region region = wire.allocate(bytes, settings.timeout());
    return world.together(
        bytes + " bytes that other nodes write",
        () -> owned.own(HostReceiveMemory.of(device, region)));
  }

  private long registerCounters() {
    return register(wire.counters().words());
  }

  private Outgoing outgoing(long bytes) {
    PageArena arena = owned.own(new PageArena());
    MemorySegment memory = arena.allocate(bytes, 4096);
    Region region = wire.register(WireMemory.host(memory));
    return new Outgoing(region, register(memory), 0);
  }

  private String bus() {
    return device.properties().pciBusId();
  }

  /** Collective: a proxy ends if that of another rank cannot start. */
  private Proxy firstProxy() {
    ResourceStack started = new ResourceStack();
    boolean all = false;
    try {
      Proxy first = world.together("the proxy", () -> started.own(startProxy()));
      all = true;
      return first;
    } finally {
      if (!all) {
        Interrupts.closeUninterruptibly(started::close);
      }
    }
  }

  private Proxy startProxy() {
    boolean alone = world.ranksOnDevice() == 1;
    ProxyConfig config = settings.proxy(bus(), alone, 0).withQueue(pendingCommands);
    return Proxy.open(device, wire, source, incoming.region(), losses, config);
  }

  private long register(MemorySegment memory) {
    return owned.own(RegisteredMemory.of(device, memory)).deviceAddress();
  }

  private boolean isIntranode(int rank) {
    return nodes.together(rank, participants.rank());
  }

  /** Whether the memory of all connected ranks of other nodes can be mapped. */
  private boolean reachable() {
    for (int r = 0; r < participants.ranks(); r++) {
      if (!isIntranode(r) && connects(r) && mapped(r) == null) {
        return false;
      }
    }
    return true;
  }

  private long[] mapOthers() {
    long[] addresses = new long[participants.ranks()];
    for (int r = 0; r < addresses.length; r++) {
      MemorySegment part = puts || isIntranode(r) ? null : mapped(r);
      if (part != null) {
        addresses[r] =
            participants.group().inProcess()
                ? RegisteredMemory.addressOf(device, part)
                : register(part);
      }
    }
    return addresses;
  }

  @Override
  public String wire() {
    return settings.wire();
  }

  @Override
  public List<WirePath> paths() {
    return wire.paths();
  }

  @Override
  public WireOptions wireOptions() {
    return wire.config().options();
  }

  @Override
  public long incoming() {
    return incoming.address();
  }

  @Override
  public long incoming(int rank) {
    return mapped[rank];
  }

  @Override
  public boolean puts() {
    return puts;
  }

  @Override
  public long outgoing() {
    return outgoing;
  }

  @Override
  public long outgoingSource() {
    return outgoingSource;
  }

  @Override
  public long counters() {
    return counters;
  }

  @Override
  public int lanesPerRing() {
    return settings.lanesPerThread(wire);
  }

  @Override
  public @Nullable PutTransport transport() {
    return null;
  }

  @Override
  public void describe(InternodeTransport to) {
    to.counters.set(counters);
    proxy.describe(to.rings);
  }

  @Override
  public boolean stopped() {
    return proxy.problem() != null;
  }

  @Override
  public @Nullable String problem(int peer) {
    String stopped = proxy.problem();
    if (stopped != null || isIntranode(peer)) {
      return stopped;
    }
    LaneFailure failure = LaneFailure.of(wire, peer);
    return failure == null ? null : failure.toString();
  }

  @Override
  public void publishClosed() {
    proxy.publishClosed(closedCounter + participants.rank());
  }

  @Override
  public boolean hasClosed(int peer) {
    return wire.counters().get(closedCounter + peer) >= wire.config().lanes();
  }

  @Override
  public String refusesLossOf(int rank) {
    return !connects(rank) || (puts && wire.severs())
        ? ""
        : "rank "
            + rank
            + " is gone, but a stopped process may still write over wire '"
            + (puts ? wire.name() : settings.wire())
            + "'";
  }

  @Override
  public String quiesce(boolean[] missing, boolean[] gone, long time, Duration timeout) {
    try {
      proxy.close();
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
    return quiesce.await(missing, gone, time, timeout);
  }

  @Override
  public void beginAnew() {
    incoming.clear();
    Counters words = wire.counters();
    for (int i = 0; i < cleared; i++) {
      // Counters change only by additions.
      words.add(i, -words.get(i));
    }
    proxy = startProxy();
  }

  @Override
  public void setIncomingWord(long offset, long value) {
    incoming.setWord(offset, value);
  }

  /**
   * Ends the proxy and closes all resources; a second call does nothing. An interrupt from before
   * does not end the wait for the proxy.
   *
   * @throws Ep4jException if a thread of the proxy does not end: its resources stay allocated
   */
  @Override
  public void close() {
    Interrupts.closeUninterruptibly(proxy::close);
    owned.close();
  }

  @Override
  public String toString() {
    return wire.name()
        + (puts ? "" : ", mapped")
        + (wire.carriesDeviceMemory() ? ", memory of the GPU" : "");
  }
}
