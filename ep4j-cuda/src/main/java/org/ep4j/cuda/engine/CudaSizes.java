package org.ep4j.cuda.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.ep4j.BufferSizes;
import org.ep4j.BufferSizes.Part;
import org.ep4j.BufferSizes.Use;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.cuda.engine.context.KernelObservations;
import org.ep4j.cuda.engine.context.Peers;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.failure.CallLog;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.engine.failure.RemoteWords;
import org.ep4j.cuda.engine.lowlatency.LowLatencyLayout;
import org.ep4j.cuda.engine.lowlatency.LowLatencyMemoryLayout;
import org.ep4j.cuda.engine.lowlatency.LowLatencyPuts;
import org.ep4j.cuda.engine.lowlatency.LowLatencyRegion;
import org.ep4j.cuda.engine.throughput.HandleLayout;
import org.ep4j.cuda.engine.throughput.OperationMemory;
import org.ep4j.cuda.internode.InternodeMemory;
import org.ep4j.cuda.internode.InternodeSizes;
import org.ep4j.cuda.internode.RailRoom;
import org.ep4j.engine.Limits;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.engine.world.Nodes;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;

/**
 * The memory of a buffer on a rank, part by part: the arithmetic of {@link CudaBufferOpening} and
 * of the operations, which allocate by the same layouts.
 */
final class CudaSizes {
  private final BufferConfig config;
  private final Nodes nodes;
  private final int rank;
  private final RegionLayout layout;
  private final List<Part> parts = new ArrayList<>();

  private CudaSizes(BufferConfig config, Nodes nodes, int rank) {
    this.config = config;
    this.nodes = nodes;
    this.rank = rank;
    layout = new RegionLayout(config, nodes);
  }

  /**
   * The memory of one rank.
   *
   * @param multiprocessors those of the GPU
   */
  static BufferSizes of(BufferConfig config, Nodes nodes, int rank, int multiprocessors) {
    return new CudaSizes(config, nodes, rank).all(multiprocessors);
  }

  /** What a buffer requires of the connection between nodes. */
  static InternodeSizes internode(BufferConfig config, Nodes nodes, RegionLayout layout) {
    if (config.lowLatency().isEmpty()) {
      return new InternodeSizes(layout.countWords, layout.slotToken, 0, 0, 0, 0, 0);
    }
    LowLatencyLayout latency = new LowLatencyLayout(config, nodes);
    return new InternodeSizes(
        layout.countWords,
        layout.slotToken,
        latency.internodeBytes,
        latency.stagingBytes,
        latency.putBytes,
        LowLatencyPuts.counters(nodes.ranks()),
        latency.pendingCommands);
  }

  /** Entries of the table of experts: rank and local number of each, and their order. */
  static long ownersBytes(ExpertPlacement placement) {
    return (2L * placement.experts() + placement.ranks() + 1) * Integer.BYTES;
  }

  private BufferSizes all(int multiprocessors) {
    onDevice("words of operations", Use.PEERS, layout.words);
    onDevice("received rows and their metadata", Use.PEERS, layout.returnBuffer - layout.words);
    onDevice("returning rows", Use.PEERS, layout.bytes - layout.returnBuffer);
    onHost("calls of the ranks of a host", Use.PEERS, CallLog.BYTES);
    int ranks = nodes.ranks();
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    onDevice(
        "tables of experts and peers",
        Use.PRIVATE,
        ownersBytes(placement) + Peers.tableBytes(ranks));
    onDevice(
        "counters of blocks", Use.PRIVATE, OperationMemory.blockCounts(config, multiprocessors));
    onHost(
        "words that kernels write for the host",
        Use.PRIVATE,
        HostWords.bytes(ranks)
            + KernelObservations.bytes(ranks, placement.localExperts(rank))
            + RemoteWords.BYTES
            + OperationMemory.layoutCounts(config, nodes));
    long latency = lowLatency(placement.localExperts(rank));
    if (nodes.count() > 1) {
      internode();
    }
    if (config.highThroughput().isPresent()) {
      firstUse();
    }
    return new BufferSizes(parts, latency);
  }

  /** Adds the parts of low-latency operations; returns the bytes that ranks of a node reach. */
  private long lowLatency(int local) {
    if (config.lowLatency().isEmpty()) {
      return 0;
    }
    int ranks = nodes.ranks();
    long region = new LowLatencyLayout(config, nodes).bytes;
    OutputShape shape = OutputShape.of(config, ranks, local);
    onDevice("low latency: arriving rows", Use.PEERS, region);
    onDevice(
        "low latency: sums and metadata", Use.PRIVATE, new LowLatencyMemoryLayout(shape).bytes);
    onDevice(
        "low latency: tables",
        Use.PRIVATE,
        LowLatencyRegion.maskBytes(ranks) + Peers.tableBytes(ranks));
    LowLatencyFormat bf16 =
        LowLatencyFormat.all(config.hidden())[
            LowLatencyFormat.index(RowFormat.BF16, ScaleKind.FLOAT32)];
    onDevice(
        "low latency: received rows, BF16",
        Use.FIRST_USE,
        LowLatencyMemoryLayout.outputBytes(shape, Layout.EXPERT_MAJOR, bf16));
    onDevice(
        "low latency: rows of zero-copy combines",
        Use.FIRST_USE,
        LowLatencyMemoryLayout.combineRegionsBytes(shape, Layout.EXPERT_MAJOR));
    return region;
  }

  private void internode() {
    InternodeMemory memory =
        InternodeMemory.of(config, nodes, rank, internode(config, nodes, layout), System.getenv());
    add("between nodes: arriving rows", Use.PEERS, memory.onDevice(), memory.incomingBytes());
    onHost("between nodes: counters", Use.PEERS, memory.counterBytes());
    add("between nodes: leaving rows", Use.PRIVATE, memory.onDevice(), memory.outgoingBytes());
    onDevice(
        "between nodes: tables",
        Use.PRIVATE,
        memory.tableBytes()
            + memory.proxyDeviceBytes()
            + (config.lowLatency().isPresent() && memory.puts()
                ? LowLatencyPuts.bytes(nodes.ranks())
                : 0));
    onHost("between nodes: commands of kernels", Use.PRIVATE, memory.proxyBytes());
  }

  private void firstUse() {
    int partners = RailRoom.bounds(config, nodes).partners(rank);
    HandleLayout handle = new HandleLayout(config, rank, partners, layout.receiveSlots);
    onDevice("a handle", Use.FIRST_USE, handle.deviceBytes);
    onHost("a handle: its counts", Use.FIRST_USE, handle.hostBytes);
    if (Limits.layouts(config).contains(Layout.EXPERT_MAJOR)) {
      onDevice("a handle: rows of EXPERT_MAJOR", Use.FIRST_USE, handle.slotsBytes);
    }
    onDevice("sums of a combine, BF16", Use.FIRST_USE, OperationMemory.sums(config, DType.BF16));
    onDevice("sums of weights", Use.FIRST_USE, OperationMemory.sumsOfWeights(config));
    if (!writesOverReceivedRows()) {
      onDevice(
          "combineInput, BF16", Use.FIRST_USE, OperationMemory.combineInput(config, DType.BF16));
    }
    onDevice(
        "dispatchLayout",
        Use.FIRST_USE,
        OperationMemory.layoutCounts(config, nodes) + OperationMemory.tokenInRank(config));
  }

  /** Whether BF16 results have no memory of their own. */
  private boolean writesOverReceivedRows() {
    return Limits.combinesInPlaceOnly(config)
        || (config.highThroughput().isPresent()
            && config.highThroughput().get().combineInPlace()
            && DType.BF16.bits() <= Limits.rowDType(config).bits());
  }

  private void onDevice(String name, Use use, long bytes) {
    add(name, use, true, bytes);
  }

  private void onHost(String name, Use use, long bytes) {
    add(name, use, false, bytes);
  }

  private void add(String name, Use use, boolean onDevice, long bytes) {
    if (bytes > 0) {
      parts.add(new Part(name, use, onDevice, bytes));
    }
  }
}
