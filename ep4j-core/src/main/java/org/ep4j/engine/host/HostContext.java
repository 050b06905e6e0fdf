package org.ep4j.engine.host;

import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.Ep4jException;
import org.ep4j.ExpertPlacement;
import org.ep4j.PeerTimeoutException;
import org.ep4j.engine.Members;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.Rails;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.SymmetricMemory;
import org.jspecify.annotations.Nullable;

/**
 * What the operations of one buffer on one rank share: who is there, where everybody's region lies,
 * which ranks count, and the epoch. Used by one thread at a time.
 *
 * <p>Region of each rank: control page ({@link ControlPageLayout}), then the high-throughput part
 * at {@link #highThroughputOffset}, then the low-latency part at {@link #lowLatencyOffset}; the
 * same offsets on every rank.
 */
final class HostContext implements PeerWait.InternodeProgress {
  final Group group;

  /** The ranks as the processes whose memory is mapped here. */
  final Members members;

  final BufferConfig config;
  final ExpertPlacement placement;
  final int rank;
  final int ranks;
  final Nodes nodes;
  final SymmetricMemory memory;
  final long highThroughputOffset;
  final long lowLatencyOffset;
  final PeerWait wait;

  /** Addresses of all ranks' regions; of ranks of other nodes, mirrors of their heads. */
  private final long[] regions;

  /** Addresses of all ranks' progress words. */
  private final long[] progress;

  private final AbortNotice abortNotice;

  /** The connection with other nodes; null if there are none. */
  private @Nullable ScaleOut scaleOut;

  /** Ranks that no operation counts with: dead at the last reset; the same on all live ranks. */
  final boolean[] excluded;

  /** Ranks that low-latency operations skip: masked here by hand or by deadline, or excluded. */
  final boolean[] masked;

  /** Number of the last high-throughput operation, barrier or reset that was started. */
  long epoch;

  /** Number of resets so far: handles of an earlier generation are stale. */
  int generation;

  /** The operation that has been entered and not finished; empty between operations. */
  private String entered = "";

  /** Why nothing but reset and close is accepted; empty while all is well. */
  private String broken = "";

  HostContext(
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
    this.wait = new PeerWait(members, config.timeout(), this);
    this.regions = new long[ranks];
    this.progress = new long[ranks];
    for (int r = 0; r < ranks; r++) {
      regions[r] = memory.address(r);
      progress[r] = memory.address(r) + ControlPageLayout.PROGRESS;
    }
    this.excluded = new boolean[ranks];
    this.masked = new boolean[ranks];
    this.abortNotice = new AbortNotice(this);
  }

  /** From now on ranks of other nodes are reached this way. */
  void connect(ScaleOut connection) {
    scaleOut = connection;
    for (int r = 0; r < ranks; r++) {
      if (!nodes.together(rank, r)) {
        regions[r] = connection.mirror(r);
        progress[r] = connection.progress(r);
      }
    }
    abortNotice.connect(connection);
  }

  /** The connection with other nodes; null if there are none. */
  @Nullable ScaleOut scaleOut() {
    return scaleOut;
  }

  /** Bytes of this rank that peers write. */
  long sharedBytes() {
    return memory.bytes() + (scaleOut == null ? 0 : scaleOut.bytes());
  }

  /** Whether {@code peer} shares memory with this rank. */
  boolean isIntranode(int peer) {
    return nodes.together(rank, peer);
  }

  /**
   * Lets ranks of other nodes see a part of this rank's region, once its progress tells them to.
   */
  void mirror(long offset, long bytes) {
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

  @Override
  public boolean aborted(int peer) {
    return abortNotice.hasAborted(peer);
  }

  @Override
  public int anyAborted() {
    return abortNotice.any();
  }

  @Override
  public AbortNotice.@Nullable Report report(int peer) {
    return abortNotice.report(peer);
  }

  /** Address of {@code rank}'s high-throughput part; of another node, of its counts alone. */
  long highThroughput(int rank) {
    return regions[rank] + highThroughputOffset;
  }

  /** Address of {@code rank}'s low-latency part; it shares memory with this one. */
  long lowLatency(int rank) {
    return memory.address(rank) + lowLatencyOffset;
  }

  /** Address of {@code rank}'s control page. */
  long control(int rank) {
    return regions[rank];
  }

  /**
   * Begins an epoch: tells the others what this rank is about to do, waits until all are about to
   * do it, and makes sure it is the same. What this rank writes before is readable for the peers,
   * what they wrote is readable here, until {@link #finish}.
   */
  void enter(Operation operation, String name) {
    epoch++;
    entered = name;
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
      // Epochs are in step; only a reset without this rank goes beyond the one that it is in.
      throw new PeerTimeoutException(
          name, "entry", epoch, peer, epoch, seen, 0, members.goneOnWithoutThis(), false);
    }
    ConfigurationMismatchException difference = operation.difference(theirs, peer, rank);
    if (difference != null) {
      throw difference;
    }
  }

  /**
   * Ends an epoch: this rank is done with everybody's memory; waits until all are.
   *
   * @throws PeerTimeoutException also if what this rank has read may not have been what it was to
   *     read: it was stopped meanwhile, or so slow that another has given up and used its memory
   *     for something else
   */
  void finish(String name, String phaseName) {
    // After the last read and before anybody can go on to another epoch: who gives up says so, and
    // only then lets its memory change.
    VarHandle.acquireFence();
    int left = anyAborted();
    if (left != Rails.NONE) {
      throw wait.failure(epoch, epoch, left, name, phaseName, epoch, PeerWait.begin());
    }
    publish(ControlPageLayout.FINISHED);
    awaitAll(ControlPageLayout.FINISHED, name, phaseName);
    awaitSent(excluded, name, epoch);
    entered = "";
  }

  /**
   * To be called when an operation is over, however it ended: one left halfway breaks the buffer.
   */
  void settle() {
    if (!entered.isEmpty()) {
      breakBecause(entered + ", epoch " + epoch + ", ended halfway", null);
      entered = "";
    }
  }

  /** The same for an exception that has ended it, which is returned. */
  <E extends RuntimeException> E settle(E cause) {
    if (!entered.isEmpty()) {
      breakBecause(entered + ", epoch " + epoch + ", ended halfway: " + cause.getMessage(), cause);
      entered = "";
    }
    return cause;
  }

  /** What a fault while memory is accessed means for the caller. */
  static Ep4jException outOfPages(String operation, InternalError fault) {
    return new Ep4jException(
        operation
            + ": the system could not provide a page of memory; /dev/shm (or EP4J_SHM_DIR) is full:"
            + " mount it larger, or lower maxTokens; call reset() on all live ranks to go on",
        fault);
  }

  /**
   * From now on only reset and close are accepted; the others are told.
   *
   * @param cause the reason as an exception, if it is one
   */
  void breakBecause(String reason, @Nullable Throwable cause) {
    broken = reason;
    abortNotice.publish(reason, cause);
    if (scaleOut != null) {
      scaleOut.registrations().revoke();
    }
  }

  /** Tells a rank that was lost, and may only have been stopped, to give up where it stands. */
  void abandonRegion() {
    abortNotice.abandonRegion();
  }

  /** From now on only reset and close are accepted; the others cannot be told. */
  void needsReset(String reason) {
    broken = reason;
  }

  /** Refuses to go on with a broken buffer. */
  void requireUsable() {
    if (!broken.isEmpty()) {
      throw new IllegalStateException("the buffer needs reset() on all live ranks: " + broken);
    }
  }

  /** After a reset: all ranks stand at {@code agreedEpoch}. */
  void restart(long agreedEpoch) {
    epoch = agreedEpoch;
    abortNotice.restart(agreedEpoch);
    generation++;
    entered = "";
    broken = "";
    publish(ControlPageLayout.FINISHED);
  }

  /**
   * Waits until everything sent to other nodes has left: after that, nobody may poll for long.
   *
   * @param skipped ranks that do not count
   * @param number of the operation
   * @throws PeerTimeoutException naming a rank for which something is left
   */
  void awaitSent(boolean[] skipped, String operation, long number) {
    long begin = PeerWait.begin();
    int unsent = trySend(skipped);
    if (unsent != Rails.NONE) {
      throw wait.failure(0, 0, unsent, operation, "bytes to leave", number, begin);
    }
  }

  /**
   * The same without an exception.
   *
   * @return a rank for which something is left, {@link Rails#NONE} if all has left
   */
  int trySend(boolean[] skipped) {
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

  /** Publishes this rank's progress; everything written before becomes visible with it. */
  void publish(int phase) {
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
