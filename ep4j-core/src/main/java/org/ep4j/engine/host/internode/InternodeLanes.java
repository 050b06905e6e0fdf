package org.ep4j.engine.host.internode;

import java.time.Duration;
import java.util.Arrays;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneLosses;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.jspecify.annotations.Nullable;

/**
 * The lanes to ranks of other nodes, by rank number in the buffer, and waits for space on them.
 * Used by one thread at a time.
 */
public final class InternodeLanes {
  /**
   * Maximum time for sending an abort notice: ranks that it does not reach hear of the abort from
   * other ranks, or time out.
   */
  private static final long LAST_WORDS_NANOS = 500_000_000;

  /** Steps of notifying a peer. */
  private static final int NONE = 0;

  private static final int PUT = 1;
  private static final int ADDED = 2;

  /** Idle polls between reads of the clock, and before other threads get the core. */
  private static final int SPINS = 64;

  private final Wire wire;
  private final ScaleOutLayout layout;
  private final int rank;
  private final Duration timeout;

  /** Lanes to each connected rank of another node; empty for all other ranks. */
  private final Lane[][] lanes;

  /** What each rank is owed; empty for a rank that is not masked. */
  private final OwedCounts[] owed;

  private final LaneLosses losses;

  /** Failed lanes at the last look. */
  private int failed;

  /** Progress that the peers have been notified of. */
  private long lastProgress;

  /**
   * The lanes of a wire.
   *
   * @param numbers ranks in the buffer of the ranks that the wire connects
   * @param rank this rank in the buffer
   */
  InternodeLanes(
      Wire wire, ScaleOutLayout layout, Nodes nodes, int[] numbers, int rank, Duration timeout) {
    this.wire = wire;
    this.layout = layout;
    this.rank = rank;
    this.timeout = timeout;
    lanes = new Lane[nodes.ranks()][0];
    owed = new OwedCounts[nodes.ranks()];
    Arrays.setAll(owed, peer -> new OwedCounts());
    for (int number = 0; number < numbers.length; number++) {
      int peer = numbers[number];
      if (!nodes.together(rank, peer)) {
        Lane[] all = new Lane[wire.config().lanes()];
        for (int i = 0; i < all.length; i++) {
          all[i] = wire.lane(number, i);
        }
        lanes[peer] = all;
      }
    }
    losses = new LaneLosses(rank, wire.name(), lanes);
  }

  /** The lane of piece {@code number} of a stream to a connected rank of another node. */
  Lane get(int peer, long number) {
    return lanes[peer][index(number)];
  }

  /** Number of lanes to each connected rank of another node. */
  int count() {
    return wire.config().lanes();
  }

  /** Whether {@code peer} is a connected rank of another node. */
  boolean reach(int peer) {
    return lanes[peer].length > 0;
  }

  private int index(long number) {
    return (int) (number % count());
  }

  /** Notifies all ranks of other nodes of {@code progress}, after the mirrored bytes. */
  public void publish(long progress) {
    addAll(layout.progress(rank), progress - lastProgress);
    lastProgress = progress;
  }

  /**
   * Puts bytes on a lane to {@code peer}; waits for space. Puts nothing on a failed lane, or on a
   * lane to a peer that has aborted and reads no more: waits for that peer report the failure, see
   * {@link #lost}.
   *
   * @param number selects the lane as in {@link #get}
   * @throws Ep4jException if there is no space at the deadline, or if the thread is interrupted
   */
  void put(int peer, int number, Region from, long at, Region to, long there, long bytes) {
    if (lanes[peer].length > 0) {
      Lane wireLane = lanes[peer][index(number)];
      long begin = 0;
      int rounds = 0;
      while (wireLane.put(from, at, to, there, bytes, Lane.NO_COUNTER) == Lane.BACK_PRESSURED
          && !hasAborted(peer)) {
        begin = rounds == 0 ? System.nanoTime() : begin;
        rounds = pause(peer, wireLane, begin, rounds);
      }
    }
  }

  /** Adds to a counter of {@code peer} on a lane, as {@link #put}, after what the peer is owed. */
  void add(int peer, int number, int counter, long value) {
    if (value != 0 && lanes[peer].length > 0) {
      Lane wireLane = lanes[peer][index(number)];
      long begin = 0;
      int rounds = 0;
      while ((!owed[peer].pay(lanes[peer][ScaleOut.CONTROL])
              || wireLane.add(counter, value) == Lane.BACK_PRESSURED)
          && !hasAborted(peer)) {
        begin = rounds == 0 ? System.nanoTime() : begin;
        rounds = pause(peer, wireLane, begin, rounds);
      }
    }
  }

  private boolean hasAborted(int peer) {
    return wire.counters().get(layout.aborted(peer)) != 0;
  }

  /** Waits a short time for space; returns the number of rounds. */
  private int pause(int peer, Lane lane, long begin, int rounds) {
    boolean idle = wire.poll(0) == 0;
    // Also while other work moves, without an end.
    if (rounds % SPINS == 0) {
      long waited = System.nanoTime() - begin;
      if (Interrupts.pending()) {
        throw Interrupts.error(
            "sending to another node",
            "space on the wire",
            waited / 1_000_000,
            "rank " + peer + ", which has taken " + lane.delivered() + " of " + lane.accepted());
      }
      if (waited > timeout.toNanos()) {
        throw new PeerTimeoutException(
            "sending to another node",
            "space on the wire",
            lastProgress / ControlPageLayout.PHASES,
            peer,
            lane.accepted(),
            lane.delivered(),
            waited / 1_000_000,
            "");
      }
      if (idle) {
        Thread.yield();
      }
    }
    return rounds + 1;
  }

  /**
   * Notifies all ranks of other nodes that this rank has aborted, as far as the wire accepts the
   * notices in a short time.
   *
   * @param from holds the reason at {@code at}
   * @param to where the peers read the reason, at {@code there}
   * @param word increase of {@link ControlPageLayout#ABORTED}
   */
  void abort(Region from, long at, Region to, long there, long bytes, long word) {
    int[] taken = new int[lanes.length];
    long begin = System.nanoTime();
    boolean done = false;
    while (!done && System.nanoTime() - begin < LAST_WORDS_NANOS) {
      done = true;
      for (int peer = 0; peer < lanes.length; peer++) {
        if (lanes[peer].length > 0) {
          Lane lane = lanes[peer][ScaleOut.CONTROL];
          if (taken[peer] == NONE
              && lane.put(from, at, to, there, bytes, Lane.NO_COUNTER) != Lane.BACK_PRESSURED) {
            taken[peer] = PUT;
          }
          if (taken[peer] == PUT && lane.add(layout.aborted(rank), word) != Lane.BACK_PRESSURED) {
            taken[peer] = ADDED;
          }
          done &= taken[peer] == ADDED && lane.flush();
        }
      }
      if (wire.poll(0) == 0) {
        Thread.yield();
      }
    }
  }

  /** Adds to a counter of all ranks of other nodes, after the mirrored bytes. */
  void addAll(int counter, long value) {
    for (int peer = 0; peer < lanes.length; peer++) {
      add(peer, ScaleOut.CONTROL, counter, value);
    }
  }

  /** Adds to a counter of a masked rank, at once or, if the rank takes nothing now, later. */
  void offer(int peer, int counter, long value) {
    if (value != 0 && lanes[peer].length > 0) {
      owed[peer].owe(counter, value);
      boolean _ = owed[peer].pay(lanes[peer][ScaleOut.CONTROL]);
    }
  }

  /** Adds to a counter of all ranks of other nodes; waits for those that are not masked. */
  void offerAll(int counter, long value, boolean[] masked) {
    for (int peer = 0; peer < lanes.length; peer++) {
      if (masked[peer]) {
        offer(peer, counter, value);
      } else {
        add(peer, ScaleOut.CONTROL, counter, value);
      }
    }
  }

  /**
   * Sends data that the wire holds back. Once all data is sent, no thread needs to poll for it.
   *
   * @param skipped ranks that do not count
   * @return a rank with unsent data, {@link Rails#NONE} if there is none
   */
  public int flush(boolean[] skipped) {
    int unsent = Rails.NONE;
    for (int peer = 0; peer < lanes.length; peer++) {
      for (Lane lane : lanes[peer]) {
        if (!skipped[peer] && !lane.flush()) {
          unsent = peer;
        }
      }
    }
    return unsent;
  }

  /** Reason why {@code peer} is unreachable; null if it is reachable or needs no wire. */
  public @Nullable String lost(int peer) {
    int now = wire.failedLanes();
    if (now == 0) {
      return null;
    }
    if (now != failed) {
      failed = now;
      losses.record();
    }
    LaneFailure failure = LaneFailure.of(lanes[peer]);
    return failure == null ? null : failure.toString();
  }

  /** Whether {@code peer} has closed its wire: it closes it with its buffer. Any thread. */
  public boolean closed(int peer) {
    LaneFailure failure = wire.failedLanes() == 0 ? null : LaneFailure.of(lanes[peer]);
    return failure != null && failure.cause() == LaneFailure.Cause.CLOSED;
  }
}
