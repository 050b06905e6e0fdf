package org.ep4j.conformance.wire;

import java.time.Duration;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Wire;

/**
 * A barrier over the wire itself, whose ranks keep polling: after it, all work of all ranks has
 * taken effect. Uses the last counter, and drives all progress contexts from one thread.
 */
final class WireBarrier {
  private static final Duration TIMEOUT = WireContext.TIMEOUT;

  private final Wire wire;
  private final int counter;
  private long barriers;

  WireBarrier(Wire wire) {
    this.wire = wire;
    this.counter = wire.config().counters() - 1;
  }

  /** Waits for all ranks and for all their work. */
  void meet() {
    barriers++;
    long start = System.nanoTime();
    while (!allDelivered()) {
      poll(start, "delivery");
    }
    for (int peer = 0; peer < wire.size(); peer++) {
      while (peer != wire.rank() && wire.lane(peer, 0).add(counter, 1) == Lane.BACK_PRESSURED) {
        poll(start, "space for its notice");
      }
    }
    while (!allLeft()) {
      poll(start, "its notice to leave");
    }
    while (wire.counters().get(counter) < barriers * (wire.size() - 1)) {
      poll(start, "the other ranks");
    }
  }

  private void poll(long start, String what) {
    for (int progressContext = 0;
        progressContext < wire.config().progressContexts();
        progressContext++) {
      wire.poll(progressContext);
    }
    Thread.yield();
    if (System.nanoTime() - start > TIMEOUT.toNanos()) {
      throw new AssertionError("rank %d waited too long for %s".formatted(wire.rank(), what));
    }
  }

  private boolean allDelivered() {
    boolean all = true;
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int i = 0; peer != wire.rank() && i < wire.config().lanes(); i++) {
        Lane lane = wire.lane(peer, i);
        requireWorking(lane);
        lane.flush();
        all &= lane.delivered() == lane.accepted();
      }
    }
    return all;
  }

  private boolean allLeft() {
    boolean all = true;
    for (int peer = 0; peer < wire.size(); peer++) {
      // A rank that has received all notices may already have closed its wire.
      all &= peer == wire.rank() || wire.lane(peer, 0).flush();
    }
    return all;
  }

  private static void requireWorking(Lane lane) {
    if (lane.failure() != null) {
      throw new AssertionError(String.valueOf(lane.failure()));
    }
  }
}
