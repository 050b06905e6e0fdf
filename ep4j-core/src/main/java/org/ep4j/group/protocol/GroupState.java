package org.ep4j.group.protocol;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.protocol.Frames.Peer;
import org.jspecify.annotations.Nullable;

/**
 * State of a group at this rank: the parts of its collectives, and the departures.
 *
 * <p>Collectives are numbered from 1. A collective is complete for a reader when the state holds a
 * part of every rank; it has failed when a part is missing whose rank has departed. The writers
 * (other threads in this JVM, or the connection to the rendezvous) enter the parts of a rank before
 * its departure. If the order of entries is the same for all readers, they agree which collectives
 * completed.
 *
 * <p>The ranks of a group inside one JVM share one state. A rank with its own process has its own
 * state and is its only reader. An entry is dropped when every live reader has read it.
 *
 * <p>When departed ranks are readmitted, collectives start again with number 1: all live ranks are
 * then inside {@link Group#readmit}, so no part of an older collective is in flight.
 */
public final class GroupState {
  /** The kinds of collective, for the check that ranks call the same one. */
  public enum Kind {
    GATHER(1, "allGather"),
    BARRIER(2, "barrier");

    /** Encoding in frames. */
    final byte code;

    private final String text;

    Kind(int code, String text) {
      this.code = (byte) code;
      this.text = text;
    }

    public static @Nullable Kind of(byte code) {
      return code == GATHER.code ? GATHER : code == BARRIER.code ? BARRIER : null;
    }
  }

  /** Collectives that a rank may be ahead of the slowest one after timeouts. */
  public static final int MAX_AHEAD = 256;

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
  // Number of the last collective to which each rank has contributed.
  private final long[] lastPart;
  private @Nullable String down;
  private int downRank = -1;
  private final AtomicInteger restarts = new AtomicInteger();

  /** The listeners of notices. Any thread. */
  private final Map<Topic, Group.NoticeListener> listeners = new ConcurrentHashMap<>();

  /** A topic at one of the ranks that share this state. */
  private record Topic(int rank, long number) {}

  /**
   * @param size number of ranks
   * @param readers the ranks that wait on this state
   * @param livenessCheck called periodically by waiting threads, outside the lock; may enter
   *     departures
   */
  public GroupState(int size, BitSet readers, Runnable livenessCheck) {
    this.size = size;
    this.readers = (BitSet) readers.clone();
    this.livenessCheck = livenessCheck;
    this.departures = new AtomicReferenceArray<>(size);
    this.incarnations = new AtomicIntegerArray(size);
    this.rejoins = new AtomicIntegerArray(size);
    this.done = new long[size];
    this.lastPart = new long[size];
  }

  public int size() {
    return size;
  }

  public boolean isAlive(int rank) {
    return departures.get(rank) == null;
  }

  public @Nullable Departure departure(int rank) {
    return departures.get(rank);
  }

  /** {@link Group#incarnation}. */
  public int incarnation(int rank) {
    return incarnations.get(rank);
  }

  public boolean hasReplacement(int rank) {
    return rejoins.get(rank) != 0;
  }

  public void rejoin(int rank, boolean waits) {
    rejoins.set(rank, waits ? 1 : 0);
  }

  /** Number of times that the numbering of collectives has restarted. */
  public int restarts() {
    return restarts.get();
  }

  /** Whether no more input will arrive. */
  public boolean isDown() {
    lock.lock();
    try {
      return down != null;
    } finally {
      lock.unlock();
    }
  }

  /** Readmits departed ranks. */
  public void readmit(List<Peer> newcomers) {
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

  /** Replaces the state of all ranks with that of a new rendezvous. */
  public void renew(List<Peer> peers) {
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
              peer.rank(), null, Departure.lost("it was not alive when this rendezvous started"));
        }
      }
      restart();
    } finally {
      lock.unlock();
    }
  }

  /**
   * The order of the writes guarantees that a reader that sees the rank alive sees its new
   * incarnation.
   */
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

  /** {@link Group#listen} of a rank. */
  public void listen(int rank, long topic, Group.@Nullable NoticeListener listener) {
    if (listener == null) {
      listeners.remove(new Topic(rank, topic));
    } else {
      listeners.put(new Topic(rank, topic), listener);
    }
  }

  /** A notice has arrived; outside the lock, because it goes to code of others. */
  public void noticed(int from, int to, long topic, byte[] notice) {
    Group.NoticeListener listener = listeners.get(new Topic(to, topic));
    // Listeners of a departed thread stay: its group was closed before its wires.
    if (listener != null && isAlive(to)) {
      listener.noticed(from, notice);
    }
  }

  /** Enters a departure; only the first one of a rank counts. */
  public void depart(int rank, Departure departure) {
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
   * Ends all current and later waits: no more input will arrive. Only the first reason counts.
   *
   * @param rank the rank whose loss is the reason; -1 if none
   */
  public void down(int rank, String why) {
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

  /** Enters the part of a rank in a collective. The state owns the array afterwards. */
  public void contribute(int rank, long number, Kind kind, byte[] part) {
    lock.lock();
    try {
      lastPart[rank] = number;
      if (number <= readByAll()) {
        return;
      }
      Entry entry = entries.computeIfAbsent(number, n -> new Entry(size, kind, rank));
      if (entry.kind != kind && entry.fault == null) {
        entry.fault =
            ("rank %d called %s as its collective number %d, rank %d called %s: all ranks must"
                    + " call the same collectives in the same order")
                .formatted(rank, kind.text, number, entry.firstRank, entry.kind.text);
      }
      entry.parts[rank] = part;
      entry.present.set(rank);
      // Waiters need a complete entry; a signal per part would make wake-ups quadratic.
      if (entry.fault != null || entry.present.cardinality() == size) {
        changed.signalAll();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Rejects a rank that continues to call collectives while another one calls none. */
  public void requireInStep(int rank, long number) {
    lock.lock();
    try {
      for (int r = 0; r < size; r++) {
        if (r != rank && isAlive(r) && number - lastPart[r] > MAX_AHEAD) {
          throw new GroupException(
              ErrorCode.COLLECTIVE_LEAD,
              "rank %d is %d collectives ahead of rank %d, which is missing since number %d: find out why it calls none"
                  .formatted(rank, MAX_AHEAD, r, lastPart[r] + 1));
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /** Waits until a collective is complete; returns copies of its parts. */
  public byte[][] await(int reader, long number, Kind kind, Deadline deadline) {
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
    // The reader has contributed, even if the rendezvous has not returned its part yet.
    int[] missing = Arrays.stream(missing(entries.get(number))).filter(r -> r != reader).toArray();
    String origin =
        missing.length > 0
            ? MissingRanks.text(missing)
            : "the rendezvous has not relayed all parts";
    return new GroupTimeoutException(
        ErrorCode.COLLECTIVE_TIMEOUT,
        "%s: %s after %s".formatted(name(number, kind), origin, deadline.text()),
        missing,
        null);
  }

  /**
   * Waits for a change of the state, at most the liveness-check interval; releases the lock
   * meanwhile.
   */
  @SuppressWarnings("WaitNotInLoop") // the callers loop
  private void pause(long nanos, String what) {
    try {
      changed.awaitNanos(Math.min(nanos, LIVENESS_CHECK_NANOS));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED, what + ": interrupted while waiting for the other ranks", e);
    }
    lock.unlock();
    try {
      livenessCheck.run();
    } finally {
      lock.lock();
    }
  }

  /** The parts if all have arrived; otherwise null. */
  private byte @Nullable [][] complete(int reader, long number, Kind kind) {
    Entry entry = entries.get(number);
    int[] missing = missing(entry);
    if (entry != null && entry.fault != null) {
      throw new GroupException(ErrorCode.COLLECTIVE_MISMATCH, entry.fault);
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
            ErrorCode.PEER_LOST,
            "%s: rank %d is gone: %s".formatted(name(number, kind), r, departure.report()),
            r);
      }
    }
    if (down != null) {
      ErrorCode code =
          downRank == reader
              ? ErrorCode.RANK_LOST
              : downRank < 0 ? ErrorCode.RENDEZVOUS_LOST : ErrorCode.PEER_LOST;
      throw new PeerLostException(code, name(number, kind) + ": " + down, downRank);
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
