package org.ep4j.cuda.engine.failure;

import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.observe.TimeoutLog;
import org.jspecify.annotations.Nullable;

/**
 * Finds the rank to report for a failed wait. A kernel knows only the missing rank; this class
 * knows lost ranks, ranks that have fenced this one, and ranks that called another operation. Any
 * thread.
 */
public final class FailureDiagnosis implements AutoCloseable {
  /**
   * Much longer than the group takes to report a loss, and short compared to the time until a loss
   * is detected.
   */
  private static final Duration LOSS_NOTICE_DELAY = Duration.ofSeconds(1);

  private static final long POLL_NANOS = 1_000_000;

  /** Much longer than words that a rank has written before it closed need to arrive at a kernel. */
  private static final long CLOSED_GRACE_NANOS = 20_000_000;

  private static final String CLOSED = "has closed its buffer";

  private final HostWords words;
  private final Members members;
  private final int rank;
  private final CallLog calls;
  private final AbortNotices notices;
  private final TimeoutLog timeouts;
  private final KernelReport report;

  /** Ranks excluded from operations: dead at the last reset. Written between operations. */
  private final boolean[] excluded;

  /** Connection to ranks of other nodes; null with one node. Set before the first operation. */
  private @Nullable InternodeConnection internode;

  /** Null with one rank. Set before the first operation. */
  private @Nullable StaleRankFence fence;

  /**
   * Time at which each rank was first seen to have closed its buffer; 0: it has not. Guarded by
   * this.
   */
  private final long[] closedSince;

  /** Whether the call log and the connection are closed. Guarded by this. */
  private boolean closed;

  /**
   * @param rank this rank
   */
  public FailureDiagnosis(
      HostWords words,
      Members members,
      int rank,
      BufferConfig config,
      CallLog calls,
      AbortNotices notices,
      TimeoutLog timeouts) {
    this.words = words;
    this.members = members;
    this.rank = rank;
    this.calls = calls;
    this.notices = notices;
    this.timeouts = timeouts;
    report = new KernelReport(words, members, config);
    excluded = new boolean[members.size()];
    closedSince = new long[members.size()];
  }

  /** Sets the sources for losses of other nodes and for ranks that have fenced this one. */
  void attach(@Nullable InternodeConnection connection, @Nullable StaleRankFence rankFence) {
    internode = connection;
    fence = rankFence;
  }

  boolean isExcluded(int peer) {
    return excluded[peer];
  }

  boolean[] excluded() {
    return excluded.clone();
  }

  /**
   * Excludes exactly these ranks. Another process may have replaced one that had died or closed:
   * kernels wait for it again.
   */
  synchronized void exclude(boolean[] gone) {
    System.arraycopy(gone, 0, excluded, 0, excluded.length);
    Arrays.fill(closedSince, 0);
    for (int r = 0; r < gone.length; r++) {
      if (!gone[r]) {
        words.back(r);
      }
    }
  }

  /** Whether another rank that is not excluded is lost. */
  boolean isLost(int peer) {
    return peer != rank && !excluded[peer] && !members.isAlive(peer);
  }

  /** Another rank that is lost; -1 if none. */
  int lostPeer() {
    for (int r = 0; r < excluded.length; r++) {
      if (isLost(r)) {
        return r;
      }
    }
    return -1;
  }

  /**
   * Notifies kernels of the ranks that have closed their buffer: those ranks enter no further
   * operation. Waits for other ranks continue, which may still be in the last operation.
   */
  synchronized void noticeClosed(long now) {
    for (int r = 0; r < excluded.length; r++) {
      if (hasClosed(r) && now - closedSince[r] > CLOSED_GRACE_NANOS) {
        words.gone(r);
      }
    }
  }

  /** Whether a rank that takes part in operations has closed its buffer, as far as known. */
  synchronized boolean hasClosed(int peer) {
    if (!closed && closedSince[peer] == 0 && isClosedNow(peer)) {
      closedSince[peer] = Math.max(1, System.nanoTime());
    }
    return closedSince[peer] != 0 && !excluded[peer];
  }

  private boolean isClosedNow(int peer) {
    return peer != rank
        && (calls.isClosed(peer)
            || notices.hasClosed(peer)
            || (internode != null && internode.hasClosed(peer)));
  }

  /** A rank that has closed its buffer; -1 if none. */
  private int closedPeer() {
    for (int r = 0; r < excluded.length; r++) {
      if (hasClosed(r)) {
        return r;
      }
    }
    return -1;
  }

  /** Whether other ranks have declared this rank lost, as far as known. */
  boolean isConsideredLost() {
    return !members.isAlive(rank);
  }

  /** Whether this rank can no longer send to other nodes. */
  boolean isCutOff() {
    return internode != null && internode.stopped();
  }

  /** The rank that has fenced this rank; {@link StaleRankFence#NO_RANK} if none. */
  int fencedBy() {
    return fence == null ? StaleRankFence.NO_RANK : fence.by();
  }

  /**
   * A wait that ended before its deadline was aborted because a rank is lost, has aborted or has
   * closed its buffer, or because the other ranks declared this rank lost. The abort can precede
   * the identity of the lost rank: a wire detects a closed connection at once, the group only after
   * its rendezvous has reported the loss. This method waits for the report, at most one second.
   */
  void awaitLossNotice() {
    long deadline = System.nanoTime() + LOSS_NOTICE_DELAY.toNanos();
    while (words.left() > 0 && !isKnown() && System.nanoTime() - deadline < 0) {
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  private boolean isKnown() {
    return isCutOff()
        || isConsideredLost()
        || lostPeer() >= 0
        || closedPeer() >= 0
        || notices.any()
        || fencedBy() != StaleRankFence.NO_RANK;
  }

  /** The error for a timeout that a kernel reported. */
  synchronized RuntimeException ofTimeout(String operation) {
    int by = fencedBy();
    return by == StaleRankFence.NO_RANK
        ? explained(timeout(operation))
        : recorded(report.fenced(operation, by));
  }

  private PeerTimeoutException timeout(String operation) {
    int lost = lostPeer();
    AbortReport told = notices.report();
    if (lost < 0 && told != null && report.isExplainedBy(told)) {
      // What this rank knows of the path comes before what the other one reports of it.
      String problem = hasClosed(told.peer()) ? null : linkProblem(told.peer());
      return problem == null
          ? report.timeout(operation, told.peer(), told.state(), told.dead())
          : unreachable(operation, told.peer(), problem);
    }
    int peer = lost >= 0 && members.isAlive(words.peer()) ? lost : words.peer();
    if (lost < 0 && words.left() > 0 && !hasClosed(peer) && linkProblem(peer) == null) {
      // Only a rank that has closed its buffer can have ended the wait before its deadline.
      peer = closedPeer() >= 0 ? closedPeer() : peer;
    }
    if (peer == rank && !closed) {
      // Blocks of this rank wait for each other too: which wait fails first is random.
      // High-throughput kernels determine the ranks that have not entered, except combines between
      // nodes; low-latency kernels do not.
      peer = calls.furthestBehind(excluded);
    }
    boolean departed = peer != rank && !members.isAlive(peer);
    if (!departed && hasClosed(peer)) {
      return report.timeout(operation, peer, CLOSED, false);
    }
    String problem = departed ? null : linkProblem(peer);
    return problem == null
        ? report.timeout(operation, peer, departed)
        : unreachable(operation, peer, problem);
  }

  private PeerTimeoutException unreachable(String operation, int peer, String problem) {
    return report.timeout(operation, peer, "is unreachable (" + problem + ")", true);
  }

  /** Why a rank of another node no longer sends, as far as known; null if it does. */
  private @Nullable String linkProblem(int peer) {
    return internode == null || closed ? null : internode.problem(peer);
  }

  /** The error for a call whose ranks do not all take part; one of them has told so. */
  synchronized RuntimeException aborted(String call) {
    AbortReport told = Objects.requireNonNull(notices.report());
    return explained(
        new PeerTimeoutException(
            call, "entry", 0, told.peer(), 1, 0, 0, told.state(), told.dead()));
  }

  /** The error for ranks that are missing in a barrier of the survivors. */
  synchronized RuntimeException missing(GroupException problem, long waitedMillis) {
    int lost = lostPeer();
    if (lost < 0 && notices.any()) {
      return aborted("barrier");
    }
    int peer = lost >= 0 ? lost : firstMissing(problem);
    String state =
        lost >= 0 ? members.departureOf(lost) : hasClosed(peer) ? CLOSED : members.silenceOf(peer);
    PeerTimeoutException timeout =
        new PeerTimeoutException(
            "barrier",
            "entry",
            0,
            peer,
            1,
            0,
            waitedMillis,
            state,
            lost >= 0 && !members.hasLeft(lost));
    timeout.initCause(problem);
    return explained(timeout);
  }

  /** The first other rank that is missing, as far as known; else this rank. */
  private int firstMissing(GroupException problem) {
    int[] missing =
        problem instanceof GroupTimeoutException timeout ? timeout.missing() : new int[0];
    int[] left = IntStream.range(0, excluded.length).filter(r -> !excluded[r]).toArray();
    return IntStream.of(missing).map(r -> left[r]).filter(r -> r != rank).findFirst().orElse(rank);
  }

  /**
   * A live peer may wait too, in another operation. Ranks that have fenced this rank restart their
   * count of calls.
   */
  private RuntimeException explained(PeerTimeoutException timeout) {
    ConfigurationMismatchException difference =
        timeout.peerDead() || closed || isConsideredLost() ? null : calls.difference(excluded);
    if (difference == null) {
      return recorded(timeout);
    }
    difference.initCause(timeout);
    return difference;
  }

  private PeerTimeoutException recorded(PeerTimeoutException timeout) {
    timeouts.record(timeout);
    return timeout;
  }

  /** The error for a rank that dispatches rows of another kind. */
  RuntimeException ofOtherKind() {
    return report.otherKind();
  }

  /** The error for a rejected choice of experts. */
  RuntimeException ofBadChoice(long state) {
    return report.badChoice(state);
  }

  /** The error for a rank that the survivors have fenced or are about to fence. */
  PeerTimeoutException outside(String call) {
    return recorded(report.outside(call, fencedBy()));
  }

  /** Freezes the diagnosis: later callers get what this rank knows now. */
  @Override
  public synchronized void close() {
    closed = true;
  }
}
