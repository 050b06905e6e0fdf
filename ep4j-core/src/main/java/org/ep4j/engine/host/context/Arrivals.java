package org.ep4j.engine.host.context;

import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.ObservationLog;

/**
 * The ranks whose words a rank awaits in one phase of an operation. While the rank waits for one of
 * them, it looks at all, so that each is charged with its own time and not only the first one.
 *
 * <p>One thread at a time; allocates nothing.
 */
public final class Arrivals {
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

  /** Charges a rank for which nobody waits any more. */
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
