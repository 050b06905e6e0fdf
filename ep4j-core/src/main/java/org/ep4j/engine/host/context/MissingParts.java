package org.ep4j.engine.host.context;

import org.ep4j.observe.ObservationLog;

/**
 * The ranks for whose parts of an exchange a rank waits. Each is charged with the whole wait; the
 * first one is named if the wait fails.
 *
 * <p>One thread at a time; allocates nothing.
 */
public final class MissingParts {
  private final int[] peers;
  private int count;
  private long seen;
  private String phase = "";

  MissingParts(int ranks) {
    peers = new int[ranks];
  }

  void clear() {
    count = 0;
  }

  /**
   * Adds a rank.
   *
   * @param progress number of its parts so far
   * @param what is missing, for messages
   */
  public void add(int peer, long progress, String what) {
    if (count == 0) {
      seen = progress;
      phase = what;
    }
    peers[count++] = peer;
  }

  /** Whether there is none. */
  public boolean isEmpty() {
    return count == 0;
  }

  void charge(ObservationLog log, long nanos) {
    for (int i = 0; i < count; i++) {
      log.waited(peers[i], nanos);
    }
  }

  /** One round of the wait; errors as {@link PeerWait#idle}. */
  void pause(PeerWait wait, int round, long begin, String operation, long epoch) {
    if (count > 0) {
      wait.idle(round, begin, peers[0], seen + 1, seen, operation, phase, epoch);
    }
  }
}
