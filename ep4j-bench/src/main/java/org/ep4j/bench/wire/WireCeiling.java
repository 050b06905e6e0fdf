package org.ep4j.bench.wire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.NodeChoice;
import org.ep4j.bench.Timings;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * Rate of the wire between nodes without an engine: every rank streams puts to its partner in each
 * other node, all at once, with the lanes that the host engine has. Puts take turns over as much
 * memory as the slots of an engine: where cores copy, memory that stays in their caches would be
 * faster than any engine can be. Collective.
 */
public final class WireCeiling implements AutoCloseable {
  private static final long PUT = 1 << 20;

  /** Puts that fill as much memory as the slots of an engine. */
  private static final int PLACES = 16;

  private static final long MAX_PUTS = 1_000_000;
  private static final long STREAM_NANOS = 300_000_000;
  private static final long TRIAL_NANOS = STREAM_NANOS / 10;
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private final Group group;
  private final CommandAgreement agreement;

  /** Ranks that this rank sends to. */
  private final List<Integer> targets = new ArrayList<>();

  /** Ranks that send to this rank. */
  private final List<Integer> sources = new ArrayList<>();

  /** GB/s of each measured stream. */
  private final List<Double> found = new ArrayList<>();

  private final Wire wire;
  private final WireWait wait;
  private final Region source;
  private final Region target;

  /** Places at each target for the puts of this rank, and the first of them. */
  private final int places;

  private final long firstPlace;

  /** Total of puts to each target, and puts of a stream. */
  private long sent;

  private final long puts;

  public WireCeiling(Group group, CommandAgreement agreement, NodeChoice nodes) {
    this.group = group;
    this.agreement = agreement;
    int ranks = group.size();
    int own = nodes.of(group.rank());
    int count = nodes.count(ranks);
    places = Math.max(1, PLACES / Math.max(1, count - 1));
    // The sources of a rank are of different nodes.
    firstPlace = (long) own * places;
    for (int node = 0; node < count; node++) {
      if (node != own) {
        targets.add(nodes.rail(group.rank(), node, ranks));
      }
    }
    for (int rank = 0; rank < ranks; rank++) {
      if (nodes.of(rank) != own && nodes.rail(rank, own, ranks) == group.rank()) {
        sources.add(rank);
      }
    }
    WireConfig config =
        WireConfig.builder().wire(nodes.wire()).counters(ranks).timeout(TIMEOUT).build();
    wire = Wires.open(group, config);
    boolean done = false;
    try {
      source = wire.allocate(PUT * places, TIMEOUT);
      target = wire.allocate(PUT * places * count, TIMEOUT);
      wait = new WireWait(wire, 0, TIMEOUT);
      puts = settled();
      done = true;
    } finally {
      if (!done) {
        wire.close();
      }
    }
  }

  /** Puts of a stream, found by trying longer and longer streams. */
  private long settled() {
    for (long count = 1; ; count *= 2) {
      long nanos = nanos(count);
      if (nanos >= TRIAL_NANOS || count >= MAX_PUTS) {
        return Math.clamp(count * STREAM_NANOS / nanos, 1, MAX_PUTS);
      }
    }
  }

  /** Kind of the measured wire. */
  public String wire() {
    return wire.name();
  }

  /** Lanes to each target. */
  public int lanes() {
    return wire.config().lanes();
  }

  /** GB/s from a rank, and to a rank at the same time; the median of the streams. */
  public double gbps() {
    return new Timings(found.stream().mapToDouble(Double::doubleValue).toArray()).median();
  }

  /** Measures one stream. */
  public void measure() {
    found.add((double) puts * PUT * targets.size() / nanos(puts));
  }

  /** Nanoseconds of the slowest rank. */
  private long nanos(long count) {
    agreement.barrier();
    long start = System.nanoTime();
    stream(count);
    return Math.max(1, agreement.max(System.nanoTime() - start));
  }

  /** Sends {@code count} puts to each target, and waits for as many from each source. */
  private void stream(long count) {
    int rank = group.rank();
    for (long i = 0; i < count; i++) {
      long place = i % places;
      for (int peer : targets) {
        Lane lane = wire.lane(peer, (int) (i % lanes()));
        wait.put(lane, source, place * PUT, target, (firstPlace + place) * PUT, PUT, rank);
      }
      wire.poll(0);
    }
    sent += count;
    for (int peer : sources) {
      wait.counter(peer, sent, peer);
    }
    for (int peer : targets) {
      for (int lane = 0; lane < lanes(); lane++) {
        wait.flush(wire.lane(peer, lane));
      }
    }
  }

  /** No rank waits for another after the last stream: its time was exchanged when all had ended. */
  @Override
  public void close() {
    wire.close();
  }
}
