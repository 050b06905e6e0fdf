package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import org.ep4j.BufferConfig;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.RegisteredMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.proxy.Proxy;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;
import org.ep4j.group.Group;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.Counters;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a rank's GPU with ranks of other nodes: a wire whose memory kernels see, the
 * proxy that drives it, and the tables of {@code kernels/far.cuh} on the device.
 *
 * <p>Where the wire's memory of other ranks can be mapped, kernels write it themselves; else they
 * write outgoing memory and the proxy puts it. Which of the two is the same for all ranks, as the
 * kind of wire is.
 */
public final class FarConnection implements AutoCloseable {
  /** All but the proxy, whose threads use it. */
  private final ResourceStack owned = new ResourceStack();

  private final Group group;
  private final Nodes nodes;
  private final int rank;
  private final FarLayout layout;
  private final int mostPartners;
  private final CudaDevice device;
  private final Wire wire;
  private final Region landing;

  /** Landing memory of each rank as kernels see it; 0 where they do not, or need not. */
  private final long[] mapped;

  private final boolean puts;
  private final long ownLanding;
  private final long outgoing;
  private final long counters;
  private final long memoryBytes;
  private final FarWire settings;

  /** What the proxy reads puts from. */
  private final Region source;

  private final boolean alone;
  private final FarTable table;

  /** Any thread asks how it is. */
  private volatile Proxy proxy;

  private final FarQuiet quiet;

  /** The number of the last time that the wire was asked to be quiet; 0 for none. */
  private long quiets;

  private FarConnection(
      Group group,
      CudaDevice device,
      boolean alone,
      BufferConfig config,
      Nodes nodes,
      FarSizes sizes) {
    this.group = group;
    this.nodes = nodes;
    this.device = device;
    this.alone = alone;
    rank = group.rank();
    layout = new FarLayout(group.size(), sizes);
    Rails rails = new Rails(nodes, new boolean[group.size()]);
    mostPartners = mostPartners(rails, group.size());
    int partners = rails.partners(rank).length;
    Proxy opened = null;
    boolean complete = false;
    try {
      settings = FarWire.of(config, System.getenv());
      wire = owned.own(settings.open(group, layout.counters(mostPartners), bus()));
      quiet = new FarQuiet(wire, layout.quiet(mostPartners));
      landing = wire.allocate(layout.landingBytes(partners), config.timeout());
      ownLanding = register(landing.segment());
      counters = register(wire.counters().words());
      puts = !reachable();
      settings.requireReach(wire, puts);
      mapped = new long[group.size()];
      // Owners of this process have locked their memory by now, on all ranks.
      group.barrier(config.timeout());
      mapOthers();
      Region read = landing;
      if (puts) {
        PageArena arena = owned.own(new PageArena());
        MemorySegment memory = arena.allocate(layout.outgoingBytes(partners), 4096);
        read = wire.register(WireMemory.host(memory));
        outgoing = register(memory);
      } else {
        outgoing = 0;
      }
      memoryBytes = layout.landingBytes(partners) + (puts ? layout.outgoingBytes(partners) : 0);
      source = read;
      opened = startProxy();
      proxy = opened;
      table = owned.own(new FarTable(this, partners, settings.lanesOfAThread()));
      complete = true;
    } finally {
      if (!complete) {
        if (opened != null) {
          opened.close();
        }
        owned.close();
      }
    }
  }

  /**
   * Connects the ranks of a buffer that spans several nodes; collective.
   *
   * @param alone whether no other rank has this device
   */
  public static FarConnection open(
      Group group,
      CudaDevice device,
      boolean alone,
      BufferConfig config,
      Nodes nodes,
      FarSizes sizes) {
    return new FarConnection(group, device, alone, config, nodes, sizes);
  }

  private String bus() {
    return device.properties().pciBusId();
  }

  private Proxy startProxy() {
    return Proxy.open(device, wire, source, landing, settings.proxy(bus(), alone, 0));
  }

  private long register(MemorySegment memory) {
    return owned.own(RegisteredMemory.of(device, memory)).deviceAddress();
  }

  private static int mostPartners(Rails rails, int ranks) {
    int most = 0;
    for (int r = 0; r < ranks; r++) {
      most = Math.max(most, rails.partners(r).length);
    }
    return most;
  }

  /** Whether the memory of all ranks of other nodes can be mapped. */
  private boolean reachable() {
    for (int r = 0; r < group.size(); r++) {
      if (!nodes.together(r, rank) && landing.mapped(r) == null) {
        return false;
      }
    }
    return true;
  }

  private void mapOthers() {
    for (int r = 0; r < mapped.length; r++) {
      MemorySegment part = puts || nodes.together(r, rank) ? null : landing.mapped(r);
      if (part != null) {
        mapped[r] = group.inProcess() ? RegisteredMemory.addressOf(device, part) : register(part);
      }
    }
  }

  /** Where kernels find the {@code FarWorld}. */
  public long world() {
    return table.address();
  }

  /** Where kernels find the node of each rank. */
  public long nodeOf() {
    return table.nodeOf();
  }

  /** Ranks of other nodes that this one exchanges tokens with while none is gone. */
  public int partners() {
    return table.partners();
  }

  /** Bytes of a slot. */
  public long slotBytes() {
    return layout.slotBytes;
  }

  /** Whether the wire carries what kernels write, instead of their writing it where it belongs. */
  public boolean puts() {
    return puts;
  }

  /** The low-latency part of this rank as its kernels see it. */
  public long lowLatencyPart() {
    return ownLanding + layout.lowLatency;
  }

  /** The low-latency part of a rank of another node; only where it is mapped. */
  public long lowLatencyPart(int rank) {
    return mapped[rank] + layout.lowLatency;
  }

  /** Where low-latency parts begin in landing memory: what puts aim at. */
  public long lowLatencyTarget() {
    return layout.lowLatency;
  }

  /** Where kernels prepare what low-latency operations put; only where {@link #puts}. */
  public long lowLatencyShadow() {
    return outgoing + layout.shadow;
  }

  /** Where that begins in outgoing memory: what puts read. */
  public long lowLatencySource() {
    return layout.shadow;
  }

  /** Number of the first counter for low latency, the same on all ranks. */
  public int firstLowLatencyCounter() {
    return layout.firstLowLatency(mostPartners);
  }

  /** Where kernels see the counters of this rank. */
  public long counters() {
    return counters;
  }

  /** The same of counter {@code number}. */
  long counter(int number) {
    return counters + (long) number * Long.BYTES;
  }

  /** Bytes of page-locked memory for what travels. */
  public long memoryBytes() {
    return memoryBytes;
  }

  /** Whether nothing more leaves this rank: the proxy has stopped. Any thread; cheap. */
  public boolean stopped() {
    return proxy.problem() != null;
  }

  /**
   * Why nothing more comes from {@code peer}, or nothing more leaves this rank; null while all is
   * well. Any thread.
   */
  public @Nullable String problem(int peer) {
    String stopped = proxy.problem();
    if (stopped != null || nodes.together(peer, rank)) {
      return stopped;
    }
    LaneFailure failure = LaneFailure.of(wire, peer);
    return failure == null ? null : failure.toString();
  }

  /**
   * Whether this can go on without these ranks; the same on all others. What a node that is gone
   * has sent must be over, and a process that was only stopped may go on. And rails stay as they
   * are only where nodes are gone as a whole.
   *
   * @return empty, or why not
   */
  public String refusesLoss(boolean[] gone) {
    for (int r = 0; r < gone.length; r++) {
      for (int other = 0; gone[r] && other < gone.length; other++) {
        if (nodes.together(r, other) && !gone[other]) {
          return "rank %d is gone, rank %d of its node is not: only whole nodes can be left out"
              .formatted(r, other);
        }
      }
      if (gone[r] && !(puts && wire.severs())) {
        return "rank %d is gone, and a process that was only stopped may still write over wire '%s'"
            .formatted(r, puts ? wire.name() : settings.wire());
      }
    }
    return "";
  }

  /** The number of the last time that {@link #quiet} was called; 0 for none. */
  public long quiets() {
    return quiets;
  }

  /**
   * Ends the proxy, and waits until nothing is under way between the ranks any more; on all that
   * are left, none of which runs a kernel. What follows is {@link #beginAnew}, this once more, or
   * {@link #close}.
   *
   * @param gone ranks that are not left, which {@link #refusesLoss} allows
   * @param time the number of this time: the same on all, above {@link #quiets} of each
   * @return empty, or why this connection cannot begin anew
   */
  public String quiet(boolean[] gone, long time, Duration timeout) {
    quiets = time;
    try {
      proxy.close();
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    }
    return quiet.await(gone, time, timeout);
  }

  /**
   * Makes everything as it was when it was opened, at the same addresses, but without the ranks
   * that are gone. All others have found the wire {@link #quiet}, and none gives it work before all
   * have come back from this.
   */
  public void beginAnew(boolean[] gone) {
    landing.segment().fill((byte) 0);
    Counters words = wire.counters();
    for (int i = 0; i < layout.quiet(mostPartners); i++) {
      // Counters only change by additions.
      words.add(i, -words.get(i));
    }
    proxy = startProxy();
    table.write(gone);
  }

  /** Sets a word of the low-latency part of this rank; nobody else writes it now. */
  public void setLowLatencyWord(long offset, long value) {
    landing.segment().set(ValueLayout.JAVA_LONG, layout.lowLatency + offset, value);
  }

  Nodes nodes() {
    return nodes;
  }

  int rank() {
    return rank;
  }

  FarLayout layout() {
    return layout;
  }

  CudaDevice device() {
    return device;
  }

  Proxy proxy() {
    return proxy;
  }

  /** Landing memory of this rank. */
  long landing() {
    return ownLanding;
  }

  /** Landing memory of another rank where it is mapped, else 0. */
  long landing(int rank) {
    return mapped[rank];
  }

  /** Outgoing memory, 0 where there is none. */
  long outgoing() {
    return outgoing;
  }

  /**
   * Ends the proxy, and gives everything back; a second call does nothing. No kernel of this rank
   * uses it any more, and none of another rank of this process.
   *
   * @throws Ep4jException if a thread of the proxy does not end: what it may use is kept
   */
  @Override
  public void close() {
    proxy.close();
    owned.close();
  }

  @Override
  public String toString() {
    return "rank " + rank + " over " + wire.name() + (puts ? "" : ", mapped");
  }
}
