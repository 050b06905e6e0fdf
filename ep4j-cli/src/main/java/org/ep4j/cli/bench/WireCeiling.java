package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * What the wire between nodes carries by itself: every rank streams puts to its partner in each
 * other node, all at once, with as many lanes as the engine has.
 */
final class WireCeiling {
  private static final int LANES = 4;
  private static final long PUT = 1 << 20;
  private static final long TRIAL = 32;
  private static final long MOST_PUTS = 1_000_000;
  private static final int STREAMS = 3;
  private static final long STREAM_NANOS = 300_000_000;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Group group;
  private final Agreement agreement;
  private final NodeChoice nodes;

  /** Whom this rank sends to. */
  private final List<Integer> targets = new ArrayList<>();

  /** Who sends to this rank. */
  private final List<Integer> sources = new ArrayList<>();

  /** What was found, a stream each. */
  private final List<Double> found = new ArrayList<>();

  private String wireName = "";

  WireCeiling(Group group, Agreement agreement, NodeChoice nodes) {
    this.group = group;
    this.agreement = agreement;
    this.nodes = nodes;
    int ranks = group.size();
    int own = nodes.of(group.rank());
    for (int node = 0; node < nodes.count(ranks); node++) {
      if (node != own) {
        targets.add(nodes.rail(group.rank(), node, ranks));
      }
    }
    for (int rank = 0; rank < ranks; rank++) {
      if (nodes.of(rank) != own && nodes.rail(rank, own, ranks) == group.rank()) {
        sources.add(rank);
      }
    }
  }

  /** Kind of wire that was measured. */
  String wire() {
    return wireName;
  }

  /** GB/s from a rank, and to a rank at the same time; the middle of what was measured. */
  double gbps() {
    return new Timings(found.stream().mapToDouble(Double::doubleValue).toArray()).median();
  }

  /** Measures some streams; on all ranks. */
  void measure() {
    WireConfig config =
        WireConfig.builder()
            .wire(nodes.wire())
            .lanes(LANES)
            .counters(group.size())
            .timeout(PATIENCE)
            .build();
    try (Wire wire = Wires.open(group, config)) {
      wireName = wire.name();
      Region source = wire.allocate(PUT, PATIENCE);
      Region target = wire.allocate(PUT * group.size(), PATIENCE);
      WireWait wait = new WireWait(wire, 0, PATIENCE);
      long sent = stream(wire, wait, source, target, TRIAL, 0);
      long nanos = nanos(wire, wait, source, target, TRIAL, sent);
      sent += TRIAL;
      long puts = Math.clamp(TRIAL * STREAM_NANOS / nanos, TRIAL, MOST_PUTS);
      for (int i = 0; i < STREAMS; i++) {
        nanos = nanos(wire, wait, source, target, puts, sent);
        sent += puts;
        found.add((double) puts * PUT * targets.size() / nanos);
      }
      // The others may still wait for what this one has in its queues: it has flushed.
      agreement.barrier();
    }
  }

  /** Nanoseconds of the slowest rank. */
  private long nanos(
      Wire wire, WireWait wait, Region source, Region target, long puts, long before) {
    agreement.barrier();
    long start = System.nanoTime();
    stream(wire, wait, source, target, puts, before);
    return Math.max(1, agreement.max(System.nanoTime() - start));
  }

  /** Sends so many puts to each target, and waits for as many of each source. */
  private long stream(
      Wire wire, WireWait wait, Region source, Region target, long puts, long before) {
    int rank = group.rank();
    for (long i = 0; i < puts; i++) {
      for (int peer : targets) {
        Lane lane = wire.lane(peer, (int) (i % LANES));
        wait.put(lane, source, 0, target, rank * PUT, PUT, rank);
      }
      wire.poll(0);
    }
    for (int peer : sources) {
      wait.counter(peer, before + puts, peer);
    }
    for (int peer : targets) {
      for (int lane = 0; lane < LANES; lane++) {
        wait.flush(wire.lane(peer, lane));
      }
    }
    return before + puts;
  }
}
