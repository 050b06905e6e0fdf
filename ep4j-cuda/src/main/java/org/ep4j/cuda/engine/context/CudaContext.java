package org.ep4j.cuda.engine.context;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.engine.failure.AbortNotices;
import org.ep4j.cuda.engine.failure.CallLog;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.engine.failure.StaleRankFence;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.struct.Control;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.TensorMemory;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Event;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * State that the operations of one buffer on one rank share: the device, the regions of this rank
 * and its peers, the stream, and the order of operations. Used by one thread at a time.
 */
public final class CudaContext {
  /** Remedy for operations that work only within a node. */
  public static final String ONE_NODE = "leave ranksPerNode unset, or use the engine 'host'";

  public final Group group;

  /** The ranks as the processes whose memory is mapped here. */
  public final Members members;

  public final BufferConfig config;
  public final ExpertPlacement placement;

  /** Experts of calls. */
  public final CallExperts experts;

  public final int rank;
  public final int ranks;
  public final CudaDevice device;
  public final RegionLayout layout;

  /** Transport between ranks of a node. */
  public final Backend backend;

  /** Ranks whose region is on the device of this rank, including this rank. */
  private final int ranksOnDevice;

  public final DeviceMemory region;
  public final Peers peers;
  public final StaleRankFence fence;
  public final Nodes nodes;

  /** Connection to ranks of other nodes; null with one node. */
  public final @Nullable InternodeConnection internode;

  /**
   * On the device: {@code rank << 16 | local number} by expert, then the start of each rank's
   * experts in the list that follows, then the list of experts by rank and local number.
   */
  public final DeviceMemory owners;

  public final HostWords words;

  /** What kernels count. */
  public final KernelObservations observations;

  public final Completion completion;

  /** Latest calls of the ranks. */
  public final CallLog calls;

  public final AbortNotices notices;

  public final Kernels kernels;
  public final Staging staging;

  /** The buffer's own stream. */
  public final CudaStream stream;

  /** Memory on the device that results show. */
  public final TensorMemory deviceMemory;

  private long resumedAfter;

  /** Number of resets; handles of an earlier generation are stale. */
  public int generation;

  private int sms;
  private int wantedSms;

  private long lastStream;

  /** The caller's stream of the last call, cached so that a warm call allocates nothing. */
  private @Nullable CudaStream callers;

  public CudaContext(
      Group group,
      BufferConfig config,
      CudaDevice device,
      RegionLayout layout,
      Nodes nodes,
      Resources resources) {
    this.group = group;
    this.members = resources.members();
    this.config = config;
    this.placement = Objects.requireNonNull(config.placement(), "settled placement");
    this.rank = group.rank();
    this.experts = new CallExperts(config, rank);
    this.ranks = group.size();
    this.device = device;
    this.deviceMemory =
        (address, dtype, shape) -> Tensor.ofDevice(address, device.ordinal(), dtype, shape);
    this.layout = layout;
    this.nodes = nodes;
    this.internode = resources.internode();
    this.backend = resources.backend();
    this.ranksOnDevice = backend.world().ranksOnDevice();
    this.region = resources.region();
    this.peers = resources.peers();
    this.fence = resources.fence();
    this.owners = resources.owners();
    this.words = resources.words();
    this.observations = resources.observations();
    this.kernels = resources.kernels();
    this.staging = resources.staging();
    this.stream = resources.stream();
    this.lastStream = stream.handle();
    this.completion = resources.completion();
    this.calls = resources.calls();
    this.notices = resources.notices();
    setSms(config.parallelism());
  }

  /** Resources of the buffer and its ranks; created before the context and closed after it. */
  public record Resources(
      Members members,
      Backend backend,
      DeviceMemory region,
      Peers peers,
      StaleRankFence fence,
      @Nullable InternodeConnection internode,
      DeviceMemory owners,
      HostWords words,
      KernelObservations observations,
      CallLog calls,
      AbortNotices notices,
      Completion completion,
      Kernels kernels,
      Staging staging,
      CudaStream stream) {}

  public int sms() {
    return sms;
  }

  /** SMs of a low-latency operation that moves {@code pieces} pieces. */
  public int lowLatencySms(long pieces) {
    int available = Math.max(1, device.properties().multiprocessors() / ranksOnDevice);
    return SmChoice.forLatency(wantedSms, available, pieces, internode != null);
  }

  public void setSms(int wanted) {
    sms =
        SmChoice.settle(
            wanted, device.properties().multiprocessors(), ranksOnDevice, internode != null);
    wantedSms = wanted;
  }

  /** The stream of a call. */
  public CudaStream stream(@Nullable DeviceStream wanted) {
    if (wanted == null) {
      return stream;
    }
    CudaStream known = callers;
    if (known == null || known.handle() != wanted.handle()) {
      forgetCallersStream();
      known = CudaStream.wrapping(device, wanted.handle());
      callers = known;
    }
    return known;
  }

  /** Closes the view of the caller's stream; the caller keeps the stream. */
  public void forgetCallersStream() {
    CudaStream known = callers;
    if (known != null) {
      known.close();
      callers = null;
    }
  }

  /**
   * Orders the next operation after the last one and after {@code previous}. Operations on one
   * stream are ordered already; an operation on another stream waits here for earlier ones, which
   * is rare. The caller orders operations in a graph.
   */
  public void order(CudaStream on, boolean capturing, @Nullable Event previous) {
    if (on.handle() != lastStream && !capturing) {
      completion.awaitAll();
      lastStream = on.handle();
    }
    if (previous != null && !(previous instanceof StreamEvent event && event.isOf(completion))) {
      previous.await();
    }
  }

  /** Tells the other ranks that this rank enters no further operation. None of its kernels runs. */
  public void publishClosed() {
    calls.publishClosed();
    notices.publishClosed(nodes);
    if (internode != null) {
      internode.publishClosed();
    }
  }

  /** Refuses an operation that does not yet support several nodes. */
  public void requireOneNode(String what, String remedy) {
    if (internode != null) {
      throw new UnsupportedOperationException(
          ErrorCode.CUDA_INTERNODE_UNSUPPORTED.message(
              what + " of the CUDA engine does not support several nodes: " + remedy));
    }
  }

  /** The epoch of the last high-throughput operation. No operation runs. */
  public long epoch() {
    MemorySegment word = MemorySegment.ofArray(new long[1]);
    region.copyTo(Control.WORDS.epoch.offset(), word);
    return word.getAtIndex(ValueLayout.JAVA_LONG, 0);
  }

  /**
   * Clears the words that ranks share, except traffic, the words of this rank's blocks, and what
   * kernels have observed, except tokens of experts. Resumes after an epoch that no rank has used:
   * words of a lost rank or of an interrupted operation must never look like words of a later
   * operation. No operation runs.
   */
  public void resumeAfter(long epoch) {
    staging.clear(Staging.Buffer.BLOCK_COUNTS, stream);
    region.fill8(0, Control.WORDS.rowsSent.offset(), (byte) 0, stream);
    region.fill8(Control.WORDS.bytes(), (long) ranks * Long.BYTES, (byte) 0, stream);
    region.fill8(layout.ready, layout.words - layout.ready, (byte) 0, stream);
    stream.synchronize();
    observations.restart(region);
    region.copyFrom(Control.WORDS.epoch.offset(), MemorySegment.ofArray(new long[] {epoch}));
    // The host's word keeps its value: a graph that replays an old ticket must not decrease it.
    region.copyFrom(
        Control.WORDS.ticket.offset(), MemorySegment.ofArray(new long[] {words.completed()}));
    resumedAfter = epoch;
  }

  /** The epoch before the first operation since the buffer was opened or last reset. */
  public long resumedAfter() {
    return resumedAfter;
  }

  /** Address of an offset in this rank's region. */
  public long at(long offset) {
    return region.address() + offset;
  }

  @Override
  public String toString() {
    return "rank " + rank + " of " + ranks + " on " + device;
  }
}
