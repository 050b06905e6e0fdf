package org.ep4j.engine.host.context;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.Members;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.ObservationLog;
import org.jspecify.annotations.Nullable;

/**
 * Waits for a word that a peer writes. Spins, then yields (at once if ranks outnumber cores: the
 * peer may need this core, and thousands of pauses take longer than a small operation), then sleeps
 * between looks: a peer that is tens of milliseconds late is busy, and a core that yields in a loop
 * takes a share of the time that the peer needs. Checks the deadline, the liveness of the peer and
 * the interrupt flag of the thread every {@link #CHECK_EVERY} rounds, and in every round that
 * sleeps. Allocates only on failure.
 */
public final class PeerWait {
  private static final int SPINS = 2_000;
  private static final int CHECK_EVERY = 1_024;

  /**
   * Time of yielding before the first sleep. Waits within an operation are shorter. With two
   * milliseconds, low latency took longer where four ranks share two cores. By the clock, because a
   * yield takes the longer the more threads want the core.
   */
  private static final long YIELD_NANOS = 20_000_000;

  private static final long SLEEP_NANOS = 50_000;
  private static final int NONE = -1;

  /** Drives transfers between nodes while a rank waits. */
  interface InternodeProgress {
    /** Moves transfers in flight; returns how many have moved. */
    int poll();

    /** Reason why a rank is unreachable; null if it is reachable. */
    @Nullable String lost(int rank);

    /** Whether a rank has aborted and takes part in no operation until the next reset. */
    boolean aborted(int rank);

    /** Whether a rank has closed its buffer. */
    boolean closed(int rank);

    /** A rank that has aborted; -1 if there is none. */
    int anyAborted();

    /** Reason of the abort; null if the rank has not aborted. */
    @Nullable AbortReport report(int rank);
  }

  private final Members members;
  private final InternodeProgress progress;
  private final ObservationLog log;

  /** The ranks of {@link #awaitAll}. */
  private final Arrivals all;

  private final long timeoutNanos;

  /** Rounds before the first yield. */
  private final int spins;

  PeerWait(Members members, Duration timeout, InternodeProgress progress, ObservationLog log) {
    this.members = members;
    this.progress = progress;
    this.log = log;
    this.all = new Arrivals(log, members.size());
    this.timeoutNanos = timeout.toNanos();
    this.spins = members.size() > Runtime.getRuntime().availableProcessors() ? 0 : SPINS;
  }

  /**
   * Waits until the word at {@code address} is at least {@code expected}, with acquire order.
   *
   * @param arrivals the ranks of the phase, if there are several
   * @return whether it is; false if the peer is dead or has aborted, at the deadline, or if the
   *     thread is interrupted
   */
  public boolean reaches(long address, long expected, int peer, @Nullable Arrivals arrivals) {
    if (NativeMemory.getLongAcquire(address) >= expected) {
      return true;
    }
    return slowReaches(address, expected, peer, arrivals, false);
  }

  /**
   * @param arrivals the phase, if this rank waits for several ranks in it
   * @param together whether an aborted rank ends the wait for any other rank, which may itself wait
   *     for the aborted one
   */
  private boolean slowReaches(
      long address, long expected, int peer, @Nullable Arrivals arrivals, boolean together) {
    long start = System.nanoTime();
    for (int round = 1; ; round++) {
      progress.poll();
      boolean there = NativeMemory.getLongAcquire(address) >= expected;
      if (arrivals != null) {
        arrivals.look();
      } else if (there) {
        log.waited(peer, System.nanoTime() - start);
      }
      if (there) {
        return true;
      }
      boolean slept = relax(round, start);
      if (checks(round, slept)
          && (!reachable(peer) || (together && progress.anyAborted() != NONE) || expired(start))) {
        if (arrivals != null) {
          arrivals.giveUp(peer);
        } else {
          log.waited(peer, System.nanoTime() - start);
        }
        // The peer may have written its last word just before its death.
        return NativeMemory.getLongAcquire(address) >= expected;
      }
    }
  }

  /** Like {@link #reaches}, but throws an exception that names the phase and the peer. */
  public void await(
      long address,
      long expected,
      int peer,
      @Nullable Arrivals arrivals,
      String operation,
      String phase,
      long epoch) {
    if (NativeMemory.getLongAcquire(address) >= expected) {
      return;
    }
    long start = System.nanoTime();
    if (!slowReaches(address, expected, peer, arrivals, true)) {
      throw failure(
          expected, NativeMemory.getLongAcquire(address), peer, operation, phase, epoch, start);
    }
  }

  /**
   * Waits until the words of all ranks are at least {@code expected}, with acquire order. A dead or
   * aborted rank ends the wait even for another rank, which may itself wait for the dead or aborted
   * one.
   *
   * @param addresses of each rank's word
   * @param skipped ranks that do not count
   */
  void awaitAll(
      long[] addresses,
      boolean[] skipped,
      long expected,
      String operation,
      String phase,
      long epoch) {
    if (haveAll(addresses, skipped, expected)) {
      return;
    }
    long start = System.nanoTime();
    all.begin(expected);
    for (int r = 0; r < addresses.length; r++) {
      if (!skipped[r]) {
        all.add(r, addresses[r]);
      }
    }
    for (int round = 1; ; round++) {
      progress.poll();
      if (all.look() == 0) {
        return;
      }
      boolean slept = relax(round, start);
      if (checks(round, slept)) {
        int dead = firstDead(addresses, skipped, expected);
        int guilty = dead != NONE ? dead : all.first();
        if ((dead != NONE || progress.anyAborted() != NONE || expired(start))
            && NativeMemory.getLongAcquire(addresses[guilty]) < expected) {
          throw failure(
              expected,
              NativeMemory.getLongAcquire(addresses[guilty]),
              guilty,
              operation,
              phase,
              epoch,
              start);
        }
      }
    }
  }

  private static boolean haveAll(long[] addresses, boolean[] skipped, long expected) {
    for (int r = 0; r < addresses.length; r++) {
      if (!skipped[r] && NativeMemory.getLongAcquire(addresses[r]) < expected) {
        return false;
      }
    }
    return true;
  }

  private int firstDead(long[] addresses, boolean[] skipped, long expected) {
    for (int r = 0; r < addresses.length; r++) {
      if (!skipped[r] && !reachable(r) && NativeMemory.getLongAcquire(addresses[r]) < expected) {
        return r;
      }
    }
    return NONE;
  }

  private boolean reachable(int peer) {
    return members.isAlive(peer)
        && progress.lost(peer) == null
        && !progress.aborted(peer)
        && !progress.closed(peer);
  }

  /**
   * Begins a wait for several conditions, or restarts its clock after progress.
   *
   * @return argument for {@link #idle}
   */
  public static long begin() {
    return System.nanoTime();
  }

  /**
   * One round of such a wait without progress.
   *
   * @param round rounds without progress, from 1
   * @param begin from {@link #begin}
   * @param peer whose part is missing
   * @param expected value that would end the wait
   * @param seen current value
   * @throws Ep4jException if the peer is dead, a rank has aborted, at the deadline, or if the
   *     thread is interrupted
   */
  public void idle(
      int round,
      long begin,
      int peer,
      long expected,
      long seen,
      String operation,
      String phase,
      long epoch) {
    boolean slept = relax(round, begin);
    if (checks(round, slept) && (ended(begin, peer) || progress.anyAborted() != NONE)) {
      throw failure(expected, seen, peer, operation, phase, epoch, begin);
    }
  }

  /**
   * One round of a wait.
   *
   * @param begin from {@link #begin}
   * @return whether the thread slept
   */
  boolean relax(int round, long begin) {
    if (round < spins) {
      Thread.onSpinWait();
    } else if (System.nanoTime() - begin < YIELD_NANOS) {
      Thread.yield();
    } else {
      LockSupport.parkNanos(this, SLEEP_NANOS);
      return true;
    }
    return false;
  }

  /** Whether a round checks the deadline and the peer. */
  private static boolean checks(int round, boolean slept) {
    return slept || round % CHECK_EVERY == 0;
  }

  private boolean ended(long begin, int peer) {
    return !reachable(peer) || expired(begin);
  }

  /** Whether the thread must stop waiting: the deadline has passed, or it is interrupted. */
  private boolean expired(long begin) {
    return System.nanoTime() - begin > timeoutNanos || Interrupts.pending();
  }

  /**
   * One round of a wait without progress; arguments as for {@link #idle}.
   *
   * @return whether to stop waiting: the peer is dead or has aborted, the deadline has passed, or
   *     the thread is interrupted
   */
  boolean over(int round, long begin, int peer) {
    boolean slept = relax(round, begin);
    return checks(round, slept) && ended(begin, peer);
  }

  /**
   * The error that ends a wait; arguments as for {@link #idle}.
   *
   * @return an {@link Interrupts#error} if the thread is interrupted, otherwise a {@link
   *     PeerTimeoutException}
   */
  public Ep4jException failure(
      long expected, long seen, int peer, String operation, String phase, long epoch, long start) {
    long nanos = System.nanoTime() - start;
    long waited = nanos / 1_000_000;
    AbortReport known = known(peer, nanos);
    if (Interrupts.pending()) {
      return Interrupts.error(
          operation + ", epoch " + epoch,
          phase,
          waited,
          "rank " + known.peer() + ", which " + known.state());
    }
    return new PeerTimeoutException(
        operation, phase, epoch, known.peer(), expected, seen, waited, known.state(), known.dead());
  }

  private AbortReport known(int peer, long waited) {
    if (!members.isAlive(peer)) {
      return new AbortReport(peer, !members.hasLeft(peer), members.departureOf(peer));
    }
    if (progress.closed(peer) && !progress.aborted(peer)) {
      return new AbortReport(peer, false, "has closed its buffer");
    }
    String lost = progress.lost(peer);
    if (lost != null) {
      return new AbortReport(peer, true, "is unreachable (" + lost + ")");
    }
    int reporter = progress.aborted(peer) ? peer : progress.anyAborted();
    AbortReport report = reporter == NONE ? null : progress.report(reporter);
    return report != null && report.explains(peer, waited, timeoutNanos)
        ? report
        : new AbortReport(peer, false, members.silenceOf(peer));
  }

  /**
   * The ranks whose words a rank awaits in one phase of an operation. While the rank waits for one
   * of them, it looks at all, so that each is charged with its own time and not only the first one.
   * A rank that arrives while this rank works is charged up to the next look.
   *
   * <p>One thread at a time; allocates nothing.
   */
  public static final class Arrivals {
    private final ObservationLog log;
    private final int[] peers;
    private final long[] addresses;
    private long expected;
    private long start;
    private int missing;

    /** Of a world of {@code ranks} ranks. */
    public Arrivals(ObservationLog log, int ranks) {
      this.log = log;
      peers = new int[ranks];
      addresses = new long[ranks];
    }

    /** Begins a phase now, with no rank yet. */
    public void begin(long value) {
      expected = value;
      start = System.nanoTime();
      missing = 0;
    }

    /** Adds a rank of the phase unless its word has the expected value. */
    public void add(int peer, long address) {
      if (NativeMemory.getLongAcquire(address) < expected) {
        peers[missing] = peer;
        addresses[missing++] = address;
      }
    }

    /** Charges the ranks that have arrived since the last look; returns how many are missing. */
    int look() {
      int left = 0;
      long now = 0;
      for (int i = 0; i < missing; i++) {
        if (NativeMemory.getLongAcquire(addresses[i]) < expected) {
          peers[left] = peers[i];
          addresses[left++] = addresses[i];
        } else {
          now = now == 0 ? System.nanoTime() : now;
          log.waited(peers[i], now - start);
        }
      }
      missing = left;
      return left;
    }

    /** The missing rank that was added first. */
    int first() {
      return peers[0];
    }

    /** Charges a rank that is no longer awaited. */
    void giveUp(int peer) {
      int left = 0;
      for (int i = 0; i < missing; i++) {
        if (peers[i] == peer) {
          log.waited(peer, System.nanoTime() - start);
        } else {
          peers[left] = peers[i];
          addresses[left++] = addresses[i];
        }
      }
      missing = left;
    }
  }
}
