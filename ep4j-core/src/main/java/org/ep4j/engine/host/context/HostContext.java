package org.ep4j.engine.host.context;

import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.DebugMode;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.SymmetricMemory;
import org.ep4j.observe.ObservationLog;
import org.ep4j.observe.OperationEvent;
import org.ep4j.routing.ExpertPlacement;
import org.jspecify.annotations.Nullable;

/**
 * State that the operations of one buffer on one rank share: the members, the addresses of all
 * regions, the ranks that count, and the epoch. Used by one thread at a time.
 *
 * <p>Region of each rank: control page ({@link ControlPageLayout}), then the high-throughput part
 * at {@link #highThroughputOffset}, then the low-latency part at {@link #lowLatencyOffset}; the
 * same offsets on every rank.
 */
public final class HostContext implements PeerWait.InternodeProgress {
  public final Group group;

  /** The ranks as the processes whose memory is mapped here. */
  public final Members members;

  public final BufferConfig config;
  public final ExpertPlacement placement;
  public final int rank;
  public final int ranks;
  public final Nodes nodes;
  public final SymmetricMemory memory;
  public final long highThroughputOffset;
  final long lowLatencyOffset;
  public final PeerWait wait;

  /** What this rank records of its operations. */
  public final ObservationLog log;

  /** The current high-throughput operation, for the flight recorder. */
  private final OperationEvent event = new OperationEvent();

  /**
   * Addresses of all ranks' regions; for ranks of other nodes, mirrors of the start of their
   * regions.
   */
  private final long[] regions;

  /** Addresses of all ranks' progress words. */
  private final long[] progress;

  /** Addresses of all ranks' words {@link ControlPageLayout#ABORTED}. */
  private final long[] aborts;

  /** Value of the word of a rank that has aborted since the last reset. */
  long abortValue = 1;

  private final AbortNotice abortNotice;

  /** The connection to other nodes; null if there are none. */
  private @Nullable ScaleOut scaleOut;

  /** Ranks that no operation counts: dead at the last reset; the same on all live ranks. */
  public final boolean[] excluded;

  /** Ranks that low-latency operations skip: masked by the caller or by a deadline, or excluded. */
  public final boolean[] masked;

  /** Whether the buffer was opened in {@link DebugMode}. */
  public final boolean debug = DebugMode.isOn();

  /** Number of the last started high-throughput operation, barrier or reset. */
  public long epoch;

  /** Number of resets so far: handles of an earlier generation are stale. */
  public int generation;

  /** The operation that has been entered and has not finished; empty between operations. */
  private String entered = "";

  /** Reason why only reset and close are accepted; empty while the buffer is usable. */
  private String broken = "";

  public HostContext(
      Group group,
      BufferConfig config,
      Nodes nodes,
      SymmetricMemory memory,
      long highThroughputOffset,
      long lowLatencyOffset) {
    this.group = group;
    this.members = new Members(group);
    this.config = config;
    this.placement = Objects.requireNonNull(config.placement(), "settled placement");
    this.rank = group.rank();
    this.ranks = group.size();
    this.nodes = nodes;
    this.memory = memory;
    this.highThroughputOffset = highThroughputOffset;
    this.lowLatencyOffset = lowLatencyOffset;
    int[] experts = new int[placement.localExperts(rank)];
    for (int local = 0; local < experts.length; local++) {
      experts[local] = placement.expertAt(rank, local);
    }
    this.log = new ObservationLog(rank, ranks, experts);
    this.wait = new PeerWait(members, config.timeout(), this, log);
    this.regions = new long[ranks];
    this.progress = new long[ranks];
    this.aborts = new long[ranks];
    for (int r = 0; r < ranks; r++) {
      regions[r] = memory.address(r);
      progress[r] = memory.address(r) + ControlPageLayout.PROGRESS;
      aborts[r] = memory.address(r) + ControlPageLayout.ABORTED;
    }
    this.excluded = new boolean[ranks];
    this.masked = new boolean[ranks];
    this.abortNotice = new AbortNotice(this);
  }

  /** Sets the connection to other nodes. */
  public void connect(ScaleOut connection) {
    scaleOut = connection;
    for (int r = 0; r < ranks; r++) {
      if (!nodes.together(rank, r)) {
        regions[r] = connection.mirror(r);
        progress[r] = connection.progress(r);
        aborts[r] = connection.aborted(r);
      }
    }
  }

  /** The connection to other nodes; null if there are none. */
  public @Nullable ScaleOut scaleOut() {
    return scaleOut;
  }

  /** Bytes of this rank that peers write. */
  public long sharedBytes() {
    return memory.bytes() + (scaleOut == null ? 0 : scaleOut.bytes());
  }

  /** Whether {@code peer} shares memory with this rank. */
  public boolean isIntranode(int peer) {
    return nodes.together(rank, peer);
  }

  /**
   * Makes a part of this rank's region visible to ranks of other nodes at the next publication of
   * its progress.
   */
  public void mirror(long offset, long bytes) {
    if (scaleOut != null) {
      scaleOut.mirror(offset, bytes);
    }
  }

  @Override
  public int poll() {
    return scaleOut == null ? 0 : scaleOut.poll();
  }

  @Override
  public @Nullable String lost(int peer) {
    return scaleOut == null ? null : scaleOut.lanes().lost(peer);
  }

  /**
   * Whether {@code peer} has aborted; its writes before the abort are then visible. Words only
   * grow: a word of a later reset means that this rank was excluded.
   */
  @Override
  public boolean aborted(int peer) {
    return NativeMemory.getLongAcquire(aborts[peer]) >= abortValue;
  }

  @Override
  public boolean closed(int peer) {
    return isIntranode(peer)
        ? NativeMemory.getLongAcquire(control(peer) + ControlPageLayout.CLOSED) != 0
        : scaleOut != null && scaleOut.lanes().closed(peer);
  }

  /** Tells the ranks of this node that this rank enters no further operation. */
  public void publishClosed() {
    NativeMemory.putLongRelease(control(rank) + ControlPageLayout.CLOSED, 1);
  }

  @Override
  public int anyAborted() {
    for (int r = 0; r < ranks; r++) {
      if (r != rank && !excluded[r] && aborted(r)) {
        return r;
      }
    }
    return Rails.NONE;
  }

  @Override
  public @Nullable AbortReport report(int peer) {
    return abortNotice.report(peer);
  }

  /**
   * Address of {@code rank}'s high-throughput part; for a rank of another node, of its counts only.
   */
  public long highThroughput(int rank) {
    return regions[rank] + highThroughputOffset;
  }

  /** Address of the low-latency part of {@code rank}, which shares memory with this rank. */
  public long lowLatency(int rank) {
    return memory.address(rank) + lowLatencyOffset;
  }

  /** Address of {@code rank}'s control page. */
  public long control(int rank) {
    return regions[rank];
  }

  /**
   * Begins an epoch: publishes this rank's operation, waits until all ranks have entered, and
   * compares their operations. Until {@link #finish}, the peers can read what this rank wrote
   * before, and this rank what they wrote.
   */
  public void enter(Operation operation, String name) {
    epoch++;
    entered = name;
    event.begin();
    operation.write(control(rank) + ControlPageLayout.DESCRIPTOR, epoch);
    mirror(ControlPageLayout.DESCRIPTOR, OperationLayout.BYTES);
    publish(ControlPageLayout.ENTERED);
    awaitAll(ControlPageLayout.ENTERED, name, "entry");
    for (int r = 0; r < ranks; r++) {
      if (r != rank && !excluded[r]) {
        requireSame(operation, name, r);
      }
    }
  }

  private void requireSame(Operation operation, String name, int peer) {
    long theirs = control(peer) + ControlPageLayout.DESCRIPTOR;
    long seen = Operation.numberAt(theirs);
    if (seen != epoch) {
      // Epochs advance together; only a reset without this rank can advance beyond this epoch.
      throw new PeerTimeoutException(
          name, "entry", epoch, peer, epoch, seen, 0, members.goneOnWithoutThis(), false);
    }
    ConfigurationMismatchException difference = operation.difference(theirs, peer, rank);
    if (difference != null) {
      throw difference;
    }
  }

  /**
   * Ends an epoch: this rank no longer accesses the memory of other ranks; waits until all ranks
   * have finished.
   *
   * @throws PeerTimeoutException also if data that this rank has read may be invalid: the rank was
   *     stopped or so slow that another rank has aborted and reused its memory
   */
  public void finish(String name, String phaseName) {
    // After the last read and before any rank can enter another epoch: a rank that aborts publishes
    // its notice first and only then lets its memory change.
    VarHandle.acquireFence();
    int left = anyAborted();
    if (left != Rails.NONE) {
      throw wait.failure(epoch, epoch, left, name, phaseName, epoch, PeerWait.begin());
    }
    publish(ControlPageLayout.FINISHED);
    awaitAll(ControlPageLayout.FINISHED, name, phaseName);
    awaitSent(excluded, name, epoch);
    entered = "";
    event.ended(log, rank, name, epoch);
    log.operationEnded();
  }

  /**
   * Called after an operation, whether it succeeded or not: an operation that ended early makes the
   * buffer unusable.
   */
  public void settle() {
    if (!entered.isEmpty()) {
      breakBecause(entered + ", epoch " + epoch + ", ended early", null);
      entered = "";
    }
  }

  /** The same after an exception, which the method returns. */
  public <E extends RuntimeException> E settle(E cause) {
    if (!entered.isEmpty()) {
      breakBecause(entered + ", epoch " + epoch + ", ended early: " + cause.getMessage(), cause);
      entered = "";
    }
    return cause;
  }

  /** The error for a memory fault during an access. */
  public static Ep4jException outOfPages(String operation, InternalError fault) {
    return new Ep4jException(
        ErrorCode.OUT_OF_SHARED_MEMORY,
        operation
            + ": the system cannot provide a page of memory: "
            + SymmetricMemory.freeText()
            + "; call reset() on all live ranks and send fewer tokens, or close the buffer on all"
            + " ranks and open one with lower maxTokens, or enlarge the directory",
        fault);
  }

  /**
   * Accepts only reset and close from now on, and notifies the other ranks.
   *
   * @param cause the reason as an exception, or null
   */
  public void breakBecause(String reason, @Nullable Throwable cause) {
    broken = reason;
    if (cause instanceof PeerTimeoutException timeout) {
      log.timeouts().record(timeout);
    }
    abortNotice.publish(reason, cause);
    if (scaleOut != null) {
      scaleOut.registrations().revoke();
    }
  }

  /** Notifies a lost rank, which may only have been stopped, that it must abort. */
  public void abandonRegion() {
    abortNotice.abandonRegion();
  }

  /** Accepts only reset and close from now on; the other ranks cannot be notified. */
  public void needsReset(String reason) {
    broken = reason;
  }

  /** Throws if the buffer needs a reset. */
  public void requireUsable() {
    if (!broken.isEmpty()) {
      throw new IllegalUseException(
          ErrorCode.RESET_NEEDED, "the buffer needs reset() on all live ranks: " + broken);
    }
  }

  /** Continues after a reset at {@code agreedEpoch}, which all ranks share. */
  public void restart(long agreedEpoch) {
    epoch = agreedEpoch;
    abortValue = agreedEpoch + 1; // no rank has used this epoch
    generation++;
    log.restart();
    entered = "";
    broken = "";
    publish(ControlPageLayout.FINISHED);
  }

  /**
   * Waits until all data for other nodes has been sent: afterwards no thread may poll for a long
   * time.
   *
   * @param skipped ranks that do not count
   * @param number of the operation
   * @throws PeerTimeoutException naming a rank with unsent data
   */
  public void awaitSent(boolean[] skipped, String operation, long number) {
    long begin = PeerWait.begin();
    int unsent = trySend(skipped);
    if (unsent != Rails.NONE) {
      throw wait.failure(0, 0, unsent, operation, "unsent bytes", number, begin);
    }
  }

  /**
   * The same without an exception.
   *
   * @return a rank with unsent data, {@link Rails#NONE} if all data is sent
   */
  public int trySend(boolean[] skipped) {
    ScaleOut connection = scaleOut;
    if (connection == null) {
      return Rails.NONE;
    }
    long begin = PeerWait.begin();
    int unsent = connection.lanes().flush(skipped);
    for (int round = 1; unsent != Rails.NONE && !wait.over(round, begin, unsent); round++) {
      connection.poll();
      unsent = connection.lanes().flush(skipped);
    }
    return unsent;
  }

  /**
   * Publishes this rank's progress with release order: all earlier writes become visible with it.
   */
  public void publish(int phase) {
    long progressed = ControlPageLayout.progress(epoch, phase);
    NativeMemory.putLongRelease(memory.address(rank) + ControlPageLayout.PROGRESS, progressed);
    if (scaleOut != null) {
      scaleOut.lanes().publish(progressed);
    }
  }

  /** Waits until every counted rank has reached {@code phase} of the current epoch. */
  private void awaitAll(int phase, String operation, String phaseName) {
    wait.awaitAll(
        progress, excluded, ControlPageLayout.progress(epoch, phase), operation, phaseName, epoch);
  }

  @Override
  public String toString() {
    return "rank " + rank + " of " + ranks + ", excluded " + Arrays.toString(excluded);
  }
}
