package org.ep4j.cuda.far;

import java.time.Duration;
import org.ep4j.BufferConfig;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;
import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a rank's GPU with ranks of other nodes: what carries between them, a wire with
 * its proxy or the backend's own device functions, and the tables of {@code kernels/internode.cuh}
 * on the device.
 */
public final class InternodeConnection implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final Nodes nodes;
  private final int rank;
  private final InternodeLayout layout;
  private final int maxPartners;
  private final InternodeLink link;
  private final InternodeTable table;

  /** The number of the last time that was asked to be quiet; 0 for none. */
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
    Rails rails = new Rails(nodes, new boolean[group.size()]);
    maxPartners = maxPartners(rails, group.size());
    int partners = rails.partners(rank).length;
    boolean complete = false;
    try {
      link = owned.own(link(group, device, backend, config, nodes, partners));
      table = owned.own(new InternodeTable(device, link, layout, nodes, rank, partners));
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
   * @param backend that the buffer has, of all ranks
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
    // Windows of a library are of one size on all ranks.
    return wire.equals(WireConfig.BACKEND)
        ? new LibraryLink(group, device, backend, nodes, sizes(maxPartners), config.timeout())
        : new WireLink(
            group,
            backend.world(),
            InternodeWire.of(wire, config.timeout(), System.getenv()),
            nodes,
            sizes(partners));
  }

  private InternodeMemorySizes sizes(int partners) {
    return new InternodeMemorySizes(
        layout.incomingBytes(partners),
        layout.outgoingBytes(partners),
        layout.counters(maxPartners),
        layout.quiesce(maxPartners));
  }

  private static int maxPartners(Rails rails, int ranks) {
    int most = 0;
    for (int r = 0; r < ranks; r++) {
      most = Math.max(most, rails.partners(r).length);
    }
    return most;
  }

  /** What carries between the nodes, as {@link BufferConfig#wire()} names it. */
  public String wire() {
    return link.wire();
  }

  /** What kernels have to be linked to; null if nothing. Closed after them. */
  public @Nullable PutTransport transport() {
    return link.transport();
  }

  /** Where kernels find the {@code InternodeWorld}. */
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

  /** Whether what kernels write is carried, instead of their writing it where it belongs. */
  public boolean puts() {
    return link.puts();
  }

  /** The low-latency part of this rank as its kernels see it. */
  public long lowLatencyPart() {
    return link.incoming() + layout.lowLatency;
  }

  /** The low-latency part of a rank of another node; only where it is mapped. */
  public long lowLatencyPart(int rank) {
    return link.incoming(rank) + layout.lowLatency;
  }

  /** Where low-latency parts begin in landing memory: what puts aim at. */
  public long lowLatencyTarget() {
    return layout.lowLatency;
  }

  /** Where kernels prepare what low-latency operations put; only where {@link #puts}. */
  public long lowLatencyStaging() {
    return link.outgoing() + layout.staging;
  }

  /** Where that begins in what puts name as their source. */
  public long lowLatencySource() {
    return link.outgoingSource() + layout.staging;
  }

  /** Number of the first counter for low latency, the same on all ranks. */
  public int firstLowLatencyCounter() {
    return layout.firstLowLatency(maxPartners);
  }

  /** Where kernels see the counters of this rank. */
  public long counters() {
    return link.counters();
  }

  /** Bytes of memory for what travels: of the host, page-locked, of the GPU, or of the backend. */
  public long memoryBytes() {
    return link.memoryBytes();
  }

  /** Whether nothing more leaves this rank: the proxy has stopped. Any thread; cheap. */
  public boolean stopped() {
    return link.stopped();
  }

  /**
   * Why nothing more comes from {@code peer}, or nothing more leaves this rank; null while all is
   * well. Any thread.
   */
  public @Nullable String problem(int peer) {
    return link.problem(peer);
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
      String refused = gone[r] ? link.refusesLossOf(r) : "";
      if (!refused.isEmpty()) {
        return refused;
      }
    }
    return "";
  }

  /** The number of the last time that {@link #quiesce} was called; 0 for none. */
  public long quiesceRounds() {
    return quiesceRounds;
  }

  /**
   * Waits until nothing is under way between the ranks any more; on all that are left, none of
   * which runs a kernel. What follows is {@link #beginAnew}, this once more, or {@link #close}.
   *
   * @param gone ranks that are not left, which {@link #refusesLoss} allows
   * @param time the number of this time: the same on all, above {@link #quiesceRounds} of each
   * @return empty, or why this connection cannot begin anew
   */
  public String quiesce(boolean[] gone, long time, Duration timeout) {
    quiesceRounds = time;
    return link.quiesce(gone, time, timeout);
  }

  /**
   * Makes everything as it was when it was opened, at the same addresses, but without the ranks
   * that are gone. All others have found that all is {@link #quiesce}, and none sends anything
   * before all have come back from this.
   */
  public void beginAnew(boolean[] gone) {
    link.beginAnew();
    table.write(gone);
  }

  /** Sets a word of the low-latency part of this rank; nobody else writes it now. */
  public void setLowLatencyWord(long offset, long value) {
    link.setIncomingWord(layout.lowLatency + offset, value);
  }

  /**
   * Ends what carries, and gives everything back; a second call does nothing. No kernel of this
   * rank uses it any more, and none of another rank of this process.
   *
   * @throws org.ep4j.Ep4jException if a thread of the proxy does not end: what it may use is kept
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
