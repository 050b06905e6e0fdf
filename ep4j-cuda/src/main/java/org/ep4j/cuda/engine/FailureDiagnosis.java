package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.ep4j.BufferConfig;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.PeerTimeoutException;
import org.ep4j.cuda.far.InternodeConnection;
import org.ep4j.engine.Members;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Whom to blame for a wait in vain. What a kernel has seen is who did not come; who is lost, who
 * has gone on without this rank, and who calls another operation is known here. Any thread may ask.
 */
final class FailureDiagnosis implements AutoCloseable {
  /** Far more than the group takes to tell, and little beside what it takes to lose a rank. */
  private static final Duration LOSS_NOTICE_DELAY = Duration.ofSeconds(1);

  private static final long POLL_NANOS = 1_000_000;

  private final HostWords words;
  private final Members members;
  private final int rank;
  private final CallLog calls;
  private final KernelReport report;

  /** Ranks that no operation counts with: gone at the last reset. Written between operations. */
  private final boolean[] excluded;

  /** The way to ranks of other nodes; null if there are none. Set before the first operation. */
  private @Nullable InternodeConnection internode;

  /** Likewise. */
  private @Nullable StaleRankFence fence;

  /** Whether what others have called, and the way to them, are given back. Guarded by this. */
  private boolean closed;

  /**
   * @param rank this one
   */
  FailureDiagnosis(HostWords words, Members members, int rank, BufferConfig config, CallLog calls) {
    this.words = words;
    this.members = members;
    this.rank = rank;
    this.calls = calls;
    report = new KernelReport(words, members, config);
    excluded = new boolean[members.size()];
  }

  /** Who tells more of other nodes, and of those that have gone on without this rank. */
  void attach(@Nullable InternodeConnection connection, @Nullable StaleRankFence rankFence) {
    internode = connection;
    fence = rankFence;
  }

  boolean isExcluded(int peer) {
    return excluded[peer];
  }

  /** These count no more, and all others do. */
  void exclude(boolean[] gone) {
    System.arraycopy(gone, 0, excluded, 0, excluded.length);
  }

  /** Whether another rank that counts is gone. */
  boolean isLost(int peer) {
    return peer != rank && !excluded[peer] && !members.isAlive(peer);
  }

  /** Another rank that is gone; -1 if there is none. */
  int lostPeer() {
    for (int r = 0; r < excluded.length; r++) {
      if (isLost(r)) {
        return r;
      }
    }
    return -1;
  }

  /** Whether the others count this rank as lost, as far as it knows. */
  boolean isConsideredLost() {
    return !members.isAlive(rank);
  }

  /** Whether nothing leaves for other nodes any more. */
  boolean isCutOff() {
    return internode != null && internode.stopped();
  }

  /** Who has gone on without this rank; {@link StaleRankFence#NO_RANK} if nobody has. */
  int fencedBy() {
    return fence == null ? StaleRankFence.NO_RANK : fence.by();
  }

  /**
   * A wait that ended before its deadline was cut short, because a rank is lost or because the
   * others have lost this one. What cuts it short can be here before it is known who is lost: a
   * wire notices at once that a connection was closed, the group only when its rendezvous has said
   * so. So this listens until that is known, for a second at most.
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
        || fencedBy() != StaleRankFence.NO_RANK;
  }

  /** What to say of the timeout that a kernel has reported. */
  synchronized RuntimeException ofTimeout(String operation) {
    int by = fencedBy();
    return by == StaleRankFence.NO_RANK
        ? explained(timeout(operation))
        : report.fenced(operation, by);
  }

  private PeerTimeoutException timeout(String operation) {
    int lost = lostPeer();
    int peer = lost >= 0 && members.isAlive(words.peer()) ? lost : words.peer();
    if (peer == rank && !closed) {
      // This rank's own blocks wait for others, too: which of the waits fails first is chance.
      // Kernels of high throughput have looked who has not entered, but for combines across nodes;
      // those of low latency have not.
      peer = calls.furthestBehind(excluded);
    }
    String loss = peer == rank ? null : members.deathReport(peer);
    if (loss == null && internode != null && !closed) {
      loss = internode.problem(peer);
    }
    return report.timeout(operation, peer, loss);
  }

  /** What to say when ranks are missing in a barrier of those that are left. */
  synchronized RuntimeException missing(GroupException problem, long waitedMillis) {
    int lost = lostPeer();
    int peer = lost >= 0 ? lost : firstMissing(problem);
    String loss = lost >= 0 ? members.deathReport(lost) : null;
    PeerTimeoutException timeout =
        new PeerTimeoutException(
            "barrier",
            "entry",
            0,
            peer,
            1,
            0,
            waitedMillis,
            loss == null ? members.silenceOf(peer) : "is dead (" + loss + ")",
            loss != null);
    timeout.initCause(problem);
    return explained(timeout);
  }

  /** The first other rank that has not come, as far as is known; else this one. */
  private int firstMissing(GroupException problem) {
    int[] missing =
        problem instanceof GroupTimeoutException timeout ? timeout.missing() : new int[0];
    int[] left = IntStream.range(0, excluded.length).filter(r -> !excluded[r]).toArray();
    return IntStream.of(missing).map(r -> left[r]).filter(r -> r != rank).findFirst().orElse(rank);
  }

  /**
   * A peer that is not dead may wait as well, in another operation. Those that have gone on without
   * this rank count their calls anew.
   */
  private RuntimeException explained(PeerTimeoutException timeout) {
    ConfigurationMismatchException difference =
        timeout.peerDead() || closed || isConsideredLost() ? null : calls.difference(excluded);
    if (difference == null) {
      return timeout;
    }
    difference.initCause(timeout);
    return difference;
  }

  /** A rank dispatches rows of another kind. */
  RuntimeException ofOtherKind() {
    return report.otherKind();
  }

  /** What to say of a choice of experts that is refused. */
  RuntimeException ofBadChoice(long state) {
    return report.badChoice(state);
  }

  /** What to say when the others have gone on without this rank, or are about to. */
  PeerTimeoutException outside(String call) {
    return report.outside(call, fencedBy());
  }

  /** Who asks later learns what this rank knew by now: nobody else is asked any more. */
  @Override
  public synchronized void close() {
    closed = true;
  }
}
