package org.ep4j.bench.wire;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
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
 * other node, all at once, with the lanes that the host engine has. Puts take turns over about as
 * much memory as the slots of the CUDA engine: where cores copy, one place would stay in their
 * caches, from which the rows of an engine do not come. Collective.
 */
public final class WireCeiling implements AutoCloseable {
  private static final long PUT = 1 << 20;

  /** Places for puts in the memory that a rank sends from; where it receives, as many or more. */
  private static final int PLACES = 16;

  private static final long MAX_PUTS = 1_000_000;
  private static final long STREAM_NANOS = 300_000_000;
  private static final long TRIAL_NANOS = STREAM_NANOS / 10;
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private final Group group;
  private final CommandAgreement agreement;

  /**
   * A rank that this rank sends to.
   *
   * @param firstPlace of this rank's places there
   */
  private record Target(int rank, long firstPlace) {}

  private final List<Target> targets = new ArrayList<>();

  /** Ranks that send to this rank, in ascending order. */
  private final List<Integer> sources;

  /** GB/s of each measured stream. */
  private final List<Double> found = new ArrayList<>();

  private final Wire wire;
  private final WireWait wait;
  private final Region source;
  private final Region target;

  /** Places of each source at a target. */
  private final int places;

  /** Total of puts to each target, and puts of a stream. */
  private long sent;

  private final long puts;

  public WireCeiling(Group group, CommandAgreement agreement, NodeChoice nodes) {
    this.group = group;
    this.agreement = agreement;
    int ranks = group.size();
    List<List<Integer>> allSources =
        IntStream.range(0, ranks).mapToObj(rank -> sourcesOf(rank, nodes, ranks)).toList();
    sources = allSources.get(group.rank());
    int maxSources = Math.max(1, allSources.stream().mapToInt(List::size).max().orElse(0));
    places = Math.ceilDiv(PLACES, maxSources);
    for (int rank = 0; rank < ranks; rank++) {
      int index = allSources.get(rank).indexOf(group.rank());
      if (index >= 0) {
        targets.add(new Target(rank, (long) index * places));
      }
    }
    WireConfig config =
        WireConfig.builder().wire(nodes.wire()).counters(ranks).timeout(TIMEOUT).build();
    wire = Wires.open(group, config);
    boolean done = false;
    try {
      source = wire.allocate(PUT * PLACES, TIMEOUT);
      target = wire.allocate(PUT * places * maxSources, TIMEOUT);
      wait = new WireWait(wire, 0, TIMEOUT);
      puts = settled();
      done = true;
    } finally {
      if (!done) {
        wire.close();
      }
    }
  }

  /**
   * The ranks of other nodes that send to a rank. Where nodes differ in size, two may be of one
   * node.
   */
  private static List<Integer> sourcesOf(int target, NodeChoice nodes, int ranks) {
    int node = nodes.of(target);
    return IntStream.range(0, ranks)
        .filter(rank -> nodes.of(rank) != node && nodes.rail(rank, node, ranks) == target)
        .boxed()
        .toList();
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
    long put = 0;
    for (long i = 0; i < count; i++) {
      for (Target to : targets) {
        Lane lane = wire.lane(to.rank(), (int) (i % lanes()));
        long from = put++ % PLACES * PUT;
        wait.put(lane, source, from, target, (to.firstPlace() + i % places) * PUT, PUT, rank);
      }
      wire.poll(0);
    }
    sent += count;
    for (int peer : sources) {
      wait.counter(peer, sent, peer);
    }
    for (Target to : targets) {
      for (int lane = 0; lane < lanes(); lane++) {
        wait.flush(wire.lane(to.rank(), lane));
      }
    }
  }

  /** No rank waits for another after the last stream: its time was exchanged when all had ended. */
  @Override
  public void close() {
    wire.close();
  }
}
