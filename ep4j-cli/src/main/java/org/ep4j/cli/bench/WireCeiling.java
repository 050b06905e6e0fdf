package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.cli.launch.CommandAgreement;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * What the wire between nodes carries by itself: every rank streams puts to its partner in each
 * other node, all at once, with as many lanes as the engine has. Collective.
 */
final class WireCeiling implements AutoCloseable {
  private static final int LANES = 4;
  private static final long PUT = 1 << 20;
  private static final long MAX_PUTS = 1_000_000;
  private static final long STREAM_NANOS = 300_000_000;
  private static final long TRIAL_NANOS = STREAM_NANOS / 10;
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private final Group group;
  private final CommandAgreement agreement;

  /** Whom this rank sends to. */
  private final List<Integer> targets = new ArrayList<>();

  /** Who sends to this rank. */
  private final List<Integer> sources = new ArrayList<>();

  /** What was found, a stream each. */
  private final List<Double> found = new ArrayList<>();

  private final Wire wire;
  private final WireWait wait;
  private final Region source;
  private final Region target;

  /** Puts to each target so far, and those of a stream. */
  private long sent;

  private final long puts;

  WireCeiling(Group group, CommandAgreement agreement, NodeChoice nodes) {
    this.group = group;
    this.agreement = agreement;
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
    WireConfig config =
        WireConfig.builder()
            .wire(nodes.wire())
            .lanes(LANES)
            .counters(ranks)
            .timeout(TIMEOUT)
            .build();
    wire = Wires.open(group, config);
    boolean done = false;
    try {
      source = wire.allocate(PUT, TIMEOUT);
      target = wire.allocate(PUT * ranks, TIMEOUT);
      wait = new WireWait(wire, 0, TIMEOUT);
      puts = settled();
      done = true;
    } finally {
      if (!done) {
        wire.close();
      }
    }
  }

  /** Puts of a stream: longer and longer ones are tried, for a wire may be a slow one. */
  private long settled() {
    for (long count = 1; ; count *= 2) {
      long nanos = nanos(count);
      if (nanos >= TRIAL_NANOS || count >= MAX_PUTS) {
        return Math.clamp(count * STREAM_NANOS / nanos, 1, MAX_PUTS);
      }
    }
  }

  /** Kind of wire that is measured. */
  String wire() {
    return wire.name();
  }

  /** GB/s from a rank, and to a rank at the same time; the middle of what was measured. */
  double gbps() {
    return new Timings(found.stream().mapToDouble(Double::doubleValue).toArray()).median();
  }

  /** Measures one stream. */
  void measure() {
    found.add((double) puts * PUT * targets.size() / nanos(puts));
  }

  /** Nanoseconds of the slowest rank. */
  private long nanos(long count) {
    agreement.barrier();
    long start = System.nanoTime();
    stream(count);
    return Math.max(1, agreement.max(System.nanoTime() - start));
  }

  /** Sends so many puts to each target, and waits for as many of each source. */
  private void stream(long count) {
    int rank = group.rank();
    for (long i = 0; i < count; i++) {
      for (int peer : targets) {
        Lane lane = wire.lane(peer, (int) (i % LANES));
        wait.put(lane, source, 0, target, rank * PUT, PUT, rank);
      }
      wire.poll(0);
    }
    sent += count;
    for (int peer : sources) {
      wait.counter(peer, sent, peer);
    }
    for (int peer : targets) {
      for (int lane = 0; lane < LANES; lane++) {
        wait.flush(wire.lane(peer, lane));
      }
    }
  }

  /** After the last stream nobody waits for anything: all ranks had ended it before any knew. */
  @Override
  public void close() {
    wire.close();
  }
}
