package org.ep4j.group.rendezvous;

import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JobKey;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.MissingRanks;
import org.jspecify.annotations.Nullable;

/**
 * Shared state of the thread ranks of one JVM: the group state, the threads of the ranks, and the
 * round in which survivors gather.
 */
final class InProcessWorld {
  /** Time for which a rank may have no live thread: a harness may start the next one. */
  private static final Duration ORPHAN_GRACE = Duration.ofSeconds(2);

  private static final long LIVENESS_CHECK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** One agreement on the survivors. */
  private static final class Round {
    final BitSet present = new BitSet();
    @Nullable BitSet members;
    List<Group> groups = List.of();
  }

  private final int size;
  private final String jobId;
  private final GroupState state;
  private final AtomicReferenceArray<@Nullable Thread> owners;
  // When the thread of a rank was first found ended, in nanoseconds; 0 while it is alive.
  private final AtomicLongArray orphanedAt;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final JobKey key = JobKey.random();
  private Round round = new Round();

  InProcessWorld(int size, String jobId) {
    if (size < 1) {
      throw new InvalidArgumentException(
          ErrorCode.GROUP_SIZE,
          "size",
          Integer.toString(size),
          "at least 1",
          "pass the number of ranks");
    }
    this.size = size;
    this.jobId = jobId;
    this.owners = new AtomicReferenceArray<>(size);
    this.orphanedAt = new AtomicLongArray(size);
    BitSet all = new BitSet();
    all.set(0, size);
    this.state = new GroupState(size, all, this::checkLiveness);
  }

  int size() {
    return size;
  }

  String jobId() {
    return jobId;
  }

  JobKey key() {
    return key;
  }

  GroupState state() {
    return state;
  }

  /** Makes the calling thread the owner of the rank: the rank is lost when its owner ends. */
  void rejoin(int rank) {
    Thread current = Thread.currentThread();
    if (!current.equals(owners.get(rank))) {
      owners.set(rank, current);
      orphanedAt.set(rank, 0);
    }
  }

  boolean isAlive(int rank) {
    if (!state.isAlive(rank)) {
      return false;
    }
    Thread owner = owners.get(rank);
    return owner == null || owner.isAlive() || inGrace(rank, owner);
  }

  private boolean inGrace(int rank, Thread owner) {
    long now = System.nanoTime() | 1;
    long since = orphanedAt.compareAndExchange(rank, 0, now);
    if (since == 0 || now - since < ORPHAN_GRACE.toNanos()) {
      return true;
    }
    state.depart(
        rank,
        Departure.lost("its thread '" + owner.getName() + "' ended without closing the group"));
    return false;
  }

  private void checkLiveness() {
    for (int rank = 0; rank < size; rank++) {
      isAlive(rank);
    }
  }

  Group survivors(int rank, Deadline deadline) {
    lock.lock();
    try {
      Round mine = round;
      mine.present.set(rank);
      while (mine.members == null) {
        if (!form(mine)) {
          waitForOthers(mine, rank, deadline);
        }
      }
      if (!mine.members.get(rank)) {
        throw lost(rank);
      }
      return mine.groups.get(mine.members.get(0, rank).cardinality());
    } finally {
      lock.unlock();
    }
  }

  /** Forms the new world if every live rank is present. */
  private boolean form(Round mine) {
    BitSet members = new BitSet();
    IntStream.range(0, size).filter(this::isAlive).forEach(members::set);
    BitSet missing = (BitSet) members.clone();
    missing.andNot(mine.present);
    if (!missing.isEmpty() || members.isEmpty()) {
      return false;
    }
    InProcessWorld next = new InProcessWorld(members.cardinality(), JobIds.successor(jobId));
    mine.groups = InProcessGroup.ranks(next);
    mine.members = members;
    round = new Round();
    changed.signalAll();
    return true;
  }

  @SuppressWarnings("WaitNotInLoop") // the caller loops
  private void waitForOthers(Round mine, int rank, Deadline deadline) {
    if (!isAlive(rank)) {
      throw lost(rank);
    }
    long left = deadline.remainingNanos();
    if (left <= 0) {
      int[] missing =
          IntStream.range(0, size).filter(r -> isAlive(r) && !mine.present.get(r)).toArray();
      mine.present.clear(rank);
      throw new GroupTimeoutException(
          ErrorCode.SURVIVORS_TIMEOUT,
          "survivors: %s after %s".formatted(MissingRanks.text(missing), deadline.text()),
          missing,
          null);
    }
    try {
      changed.awaitNanos(Math.min(left, LIVENESS_CHECK_NANOS));
    } catch (InterruptedException e) {
      mine.present.clear(rank);
      Thread.currentThread().interrupt();
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED,
          "survivors: interrupted while waiting for the other ranks",
          e);
    }
  }

  private PeerLostException lost(int rank) {
    Departure departure = state.departure(rank);
    return PeerLostException.ofCaller(
        "survivors", rank, departure == null ? "unknown" : departure.report());
  }
}
