package org.ep4j.group;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.ep4j.group.Frames.Peer;
import org.jspecify.annotations.Nullable;

/**
 * What has been heard of a group: the parts of its collectives, and who has departed.
 *
 * <p>A collective is known by its number, 1 for the first. It is complete for a reader when the
 * ledger holds a part of every rank; it has failed when a part is missing whose rank has departed.
 * Whoever writes (other threads in this JVM, or the connection to the rendezvous) enters a rank's
 * parts before its departure. Where the order of entries is the same for all readers, they all
 * agree which collectives came about.
 *
 * <p>A group inside one JVM shares one ledger; a rank with a process of its own has its own, with
 * itself as the only reader. An entry is dropped once every living reader is done with it.
 *
 * <p>When departed ranks are taken in again, collectives begin anew with number 1: all living ranks
 * are inside {@link Group#readmit} then, so no part of an older one is under way.
 */
final class GroupState {
  /** The kinds of collective, so that ranks out of step are told so. */
  enum Kind {
    GATHER(1, "allGather"),
    BARRIER(2, "barrier");

    /** How frames say it. */
    final byte code;

    private final String text;

    Kind(int code, String text) {
      this.code = (byte) code;
      this.text = text;
    }

    static @Nullable Kind of(byte code) {
      return code == GATHER.code ? GATHER : code == BARRIER.code ? BARRIER : null;
    }
  }

  /** Collectives a rank may run ahead of the slowest one, by giving up waiting for it. */
  static final int MAX_AHEAD = 256;

  private static final long LIVENESS_CHECK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private static final class Entry {
    final byte[][] parts;
    final BitSet present = new BitSet();
    final Kind kind;
    final int firstRank;
    @Nullable String fault;

    Entry(int size, Kind kind, int firstRank) {
      this.parts = new byte[size][];
      this.kind = kind;
      this.firstRank = firstRank;
    }
  }

  private final int size;
  private final BitSet readers;
  private final Runnable livenessCheck;
  private final AtomicReferenceArray<@Nullable Departure> departures;
  private final AtomicIntegerArray incarnations;
  private final AtomicIntegerArray rejoins;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Map<Long, Entry> entries = new HashMap<>();
  private final long[] done;
  // Number of the last collective each rank has done its part of.
  private final long[] lastPart;
  private @Nullable String down;
  private int downRank = -1;
  private final AtomicInteger restarts = new AtomicInteger();

  /**
   * @param size number of ranks
   * @param readers the ranks that will wait on this ledger
   * @param livenessCheck run now and then by whoever waits, outside the lock; may enter departures
   */
  GroupState(int size, BitSet readers, Runnable livenessCheck) {
    this.size = size;
    this.readers = (BitSet) readers.clone();
    this.livenessCheck = livenessCheck;
    this.departures = new AtomicReferenceArray<>(size);
    this.incarnations = new AtomicIntegerArray(size);
    this.rejoins = new AtomicIntegerArray(size);
    this.done = new long[size];
    this.lastPart = new long[size];
  }

  int size() {
    return size;
  }

  boolean isAlive(int rank) {
    return departures.get(rank) == null;
  }

  @Nullable Departure departure(int rank) {
    return departures.get(rank);
  }

  /** {@link Group#incarnation}. */
  int incarnation(int rank) {
    return incarnations.get(rank);
  }

  boolean hasReplacement(int rank) {
    return rejoins.get(rank) != 0;
  }

  void rejoin(int rank, boolean waits) {
    rejoins.set(rank, waits ? 1 : 0);
  }

  /** How often the numbering of collectives has begun anew. */
  int restarts() {
    return restarts.get();
  }

  /** Whether nothing more will be heard. */
  boolean isDown() {
    lock.lock();
    try {
      return down != null;
    } finally {
      lock.unlock();
    }
  }

  /** Takes ranks in again that have departed. */
  void readmit(List<Peer> newcomers) {
    lock.lock();
    try {
      for (Peer peer : newcomers) {
        take(peer);
      }
      restart();
    } finally {
      lock.unlock();
    }
  }

  /** Goes on with what another rendezvous says of all ranks. */
  void renew(List<Peer> peers) {
    lock.lock();
    try {
      down = null;
      downRank = -1;
      for (Peer peer : peers) {
        if (peer.alive()) {
          take(peer);
        } else {
          incarnations.set(peer.rank(), peer.incarnation());
          rejoins.set(peer.rank(), 0);
          departures.compareAndSet(
              peer.rank(), null, Departure.lost("it was not there when this rendezvous began"));
        }
      }
      restart();
    } finally {
      lock.unlock();
    }
  }

  /** Who sees the rank alive again, sees its new incarnation. */
  private void take(Peer peer) {
    incarnations.set(peer.rank(), peer.incarnation());
    rejoins.set(peer.rank(), 0);
    departures.set(peer.rank(), null);
  }

  private void restart() {
    entries.clear();
    Arrays.fill(done, 0);
    Arrays.fill(lastPart, 0);
    restarts.incrementAndGet();
    changed.signalAll();
  }

  /** Enters a departure; the first one of a rank counts. */
  void depart(int rank, Departure departure) {
    lock.lock();
    try {
      if (departures.compareAndSet(rank, null, departure)) {
        dropRead();
        changed.signalAll();
      }
    } finally {
      lock.unlock();
    }
  }

  /**
   * Ends all waits, now and later: nothing more will be heard. The first reason counts.
   *
   * @param rank whose loss it is, -1 if no rank's
   */
  void down(int rank, String why) {
    lock.lock();
    try {
      if (down == null) {
        down = why;
        downRank = rank;
        changed.signalAll();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Enters a rank's part of a collective. The array belongs to the ledger from now on. */
  void contribute(int rank, long number, Kind kind, byte[] part) {
    lock.lock();
    try {
      lastPart[rank] = number;
      if (number <= readByAll()) {
        return;
      }
      Entry entry = entries.computeIfAbsent(number, n -> new Entry(size, kind, rank));
      if (entry.kind != kind && entry.fault == null) {
        entry.fault =
            ("rank %d called %s as its collective number %d where rank %d called %s; all ranks must"
                    + " call the same collectives in the same order")
                .formatted(rank, kind.text, number, entry.firstRank, entry.kind.text);
      }
      entry.parts[rank] = part;
      entry.present.set(rank);
      // Nobody acts on less, and waking everybody for every part is quadratic.
      if (entry.fault != null || entry.present.cardinality() == size) {
        changed.signalAll();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Refuses a rank that keeps calling although another one stays away. */
  void requireInStep(int rank, long number) {
    lock.lock();
    try {
      for (int r = 0; r < size; r++) {
        if (r != rank && isAlive(r) && number - lastPart[r] > MAX_AHEAD) {
          throw new GroupException(
              "rank %d is %d collectives ahead of rank %d, which is missing since number %d"
                  .formatted(rank, MAX_AHEAD, r, lastPart[r] + 1));
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /** Waits until a collective is complete; returns copies of its parts. */
  byte[][] await(int reader, long number, Kind kind, Deadline deadline) {
    lock.lock();
    try {
      while (true) {
        byte[][] parts = complete(reader, number, kind);
        if (parts != null) {
          return parts;
        }
        long left = deadline.remainingNanos();
        if (left <= 0) {
          throw timeout(reader, number, kind, deadline);
        }
        pause(left, name(number, kind));
      }
    } finally {
      done[reader] = number;
      dropRead();
      lock.unlock();
    }
  }

  private GroupTimeoutException timeout(int reader, long number, Kind kind, Deadline deadline) {
    // The reader has done its part, even if that has not come back from the rendezvous yet.
    int[] missing = Arrays.stream(missing(entries.get(number))).filter(r -> r != reader).toArray();
    String origin =
        missing.length > 0
            ? MissingRanks.text(missing)
            : "the rendezvous has not relayed all parts";
    return new GroupTimeoutException(
        "%s: %s after %s".formatted(name(number, kind), origin, deadline.text()), missing, null);
  }

  /**
   * Waits for a change of the ledger or a moment; the lock is held once, and given up meanwhile.
   */
  @SuppressWarnings("WaitNotInLoop") // the callers loop
  private void pause(long nanos, String what) {
    try {
      changed.awaitNanos(Math.min(nanos, LIVENESS_CHECK_NANOS));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(what + ": interrupted while waiting for the other ranks", e);
    }
    lock.unlock();
    try {
      livenessCheck.run();
    } finally {
      lock.lock();
    }
  }

  /** The parts if all are there, null if some are still to come. */
  private byte @Nullable [][] complete(int reader, long number, Kind kind) {
    Entry entry = entries.get(number);
    int[] missing = missing(entry);
    if (entry != null && entry.fault != null) {
      throw new GroupException(entry.fault);
    }
    if (entry != null && missing.length == 0) {
      byte[][] copies = new byte[size][];
      for (int r = 0; r < size; r++) {
        copies[r] = entry.parts[r].clone();
      }
      return copies;
    }
    for (int r : missing) {
      Departure departure = departures.get(r);
      if (departure != null) {
        throw new PeerLostException(
            "%s: rank %d is gone: %s".formatted(name(number, kind), r, departure.report()), r);
      }
    }
    if (down != null) {
      throw new PeerLostException(name(number, kind) + ": " + down, downRank);
    }
    Departure own = departures.get(reader);
    if (own != null) {
      throw PeerLostException.ofCaller(name(number, kind), reader, own.report());
    }
    return null;
  }

  private int[] missing(@Nullable Entry entry) {
    int[] missing = new int[size];
    int n = 0;
    for (int r = 0; r < size; r++) {
      if (entry == null || !entry.present.get(r)) {
        missing[n++] = r;
      }
    }
    return Arrays.copyOf(missing, n);
  }

  private long readByAll() {
    long least = Long.MAX_VALUE;
    for (int r = readers.nextSetBit(0); r >= 0; r = readers.nextSetBit(r + 1)) {
      if (isAlive(r)) {
        least = Math.min(least, done[r]);
      }
    }
    return least;
  }

  private void dropRead() {
    long read = readByAll();
    ArrayDeque<Long> old = new ArrayDeque<>();
    for (Long number : entries.keySet()) {
      if (number <= read) {
        old.add(number);
      }
    }
    old.forEach(entries::remove);
  }

  private static String name(long number, Kind kind) {
    return kind.text + " (collective number " + number + ")";
  }
}
