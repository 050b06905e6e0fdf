package org.ep4j.wire;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.function.IntFunction;

/**
 * Finds out which ranks a wire connects: each rank sends a put and an add to each peer over each
 * lane. Runs on all ranks at the same time, once, on a new wire with a counter for each rank.
 */
final class WireProbe {
  /** Part of a result that only says that this rank has waited in vain. */
  static final String SILENCE = "nothing came";

  /**
   * More than a packet of any network (4 KiB): switches that drop large packets carry small ones.
   */
  private static final long PUT_BYTES = 8 << 10;

  /**
   * Memory that the probe exposes: more than the usual limits of locked memory (64 KiB, 8 MiB),
   * within which the regions of an engine would not fit either.
   */
  private static final long REGION_BYTES = 16 << 20;

  /** A put and an add. */
  private static final int WORK_OF_LANE = 2;

  private final Wire wire;
  private final Region region;
  private final IntFunction<String> names;

  /** By peer, the work that its lanes have accepted, in the order of the lanes. */
  private final int[] accepted;

  /**
   * @param region memory of {@link #bytes} on each rank
   * @param names of the ranks, for messages
   */
  WireProbe(Wire wire, Region region, IntFunction<String> names) {
    this.wire = wire;
    this.region = region;
    this.names = names;
    accepted = new int[wire.size()];
  }

  /** Bytes of the region: a place for the bytes of each rank, and behind them those it sends. */
  static long bytes(int ranks) {
    return Math.max(REGION_BYTES, (ranks + 1) * PUT_BYTES);
  }

  /**
   * Sends to all peers, and waits for what they send.
   *
   * @param limit of the whole probe
   * @param ports of this rank, for messages
   * @return the first peer that was not reached, or that did not reach this rank, and why; empty
   *     for success
   */
  String run(Duration limit, String ports) {
    region.segment().asSlice(wire.size() * PUT_BYTES, PUT_BYTES).fill(pattern(wire.rank()));
    try {
      new WireWait(wire, 0, limit).until(this::settled, "the puts and adds of all ranks");
    } catch (WireTimeoutException e) {
      // Below is the peer for which this rank has waited.
    }
    for (int peer = 0; peer < wire.size(); peer++) {
      String problem = peer == wire.rank() ? "" : problem(peer, limit, ports);
      if (!problem.isEmpty()) {
        return problem;
      }
    }
    return "";
  }

  /** Continues with each peer; whether nothing more is to come, also because lanes have failed. */
  private boolean settled() {
    boolean all = true;
    for (int peer = 0; peer < wire.size(); peer++) {
      if (peer != wire.rank() && !failed(peer)) {
        // Every peer gets its work: one without space must not look like silence to the others.
        all &= send(peer) && flush(peer) && arrived(peer);
      }
    }
    return all;
  }

  private boolean failed(int peer) {
    return wire.failedLanes() != 0 && LaneFailure.of(wire, peer) != null;
  }

  /** Sends what the lanes to a peer have space for; whether they have accepted everything. */
  private boolean send(int peer) {
    while (accepted[peer] < expected()) {
      Lane lane = wire.lane(peer, accepted[peer] / WORK_OF_LANE);
      int me = wire.rank();
      long result =
          accepted[peer] % WORK_OF_LANE == 0
              ? lane.put(region, wire.size() * PUT_BYTES, region, me * PUT_BYTES, PUT_BYTES, me)
              : lane.add(me, 1);
      if (result == Lane.BACK_PRESSURED || result == Lane.FAILED) {
        return false;
      }
      accepted[peer]++;
    }
    return true;
  }

  private boolean flush(int peer) {
    boolean all = true;
    for (int i = 0; i < wire.config().lanes(); i++) {
      all &= wire.lane(peer, i).flush();
    }
    return all;
  }

  /** Work of all lanes between two ranks, in each direction; each piece counts 1. */
  private int expected() {
    return WORK_OF_LANE * wire.config().lanes();
  }

  private boolean arrived(int peer) {
    return wire.counters().get(peer) == expected();
  }

  private String problem(int peer, Duration limit, String ports) {
    LaneFailure failure = LaneFailure.of(wire, peer);
    if (failure != null) {
      return "%s is not reached: %s".formatted(names.apply(peer), failure.text());
    }
    if (!arrived(peer)) {
      return "%s from %s over ports %s within %d ms"
          .formatted(SILENCE, names.apply(peer), ports, limit.toMillis());
    }
    MemorySegment got = region.segment().asSlice(peer * PUT_BYTES, PUT_BYTES);
    for (long at = 0; at < PUT_BYTES; at++) {
      if (got.get(ValueLayout.JAVA_BYTE, at) != pattern(peer)) {
        return "wrong bytes came from " + names.apply(peer);
      }
    }
    return "";
  }

  private static byte pattern(int rank) {
    return (byte) (rank + 1);
  }
}
