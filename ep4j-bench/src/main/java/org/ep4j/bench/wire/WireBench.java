package org.ep4j.bench.wire;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongUnaryOperator;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * Times puts from rank 0 to rank 1 over one wire: single puts, each answered by a put, and streams
 * of puts. Both ranks make the same calls.
 */
public final class WireBench implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);
  private static final int PING = 0;
  private static final int PONG = 8;
  private static final int STREAM = 16;
  private static final int DONE = 24;
  private static final int MAX_ROUND_TRIPS = 2_000;
  private static final long MAX_PUTS = 20_000_000;

  /** Minimum number of round trips and of puts. */
  private static final int LEAST = 4;

  /** The warm-up ends when a run takes this fraction of the timed duration. */
  private static final int WARM_PART = 4;

  private final Group group;
  private final CommandAgreement agreement;
  private final WireConfig config;
  private final Wire wire;
  private final Region source;
  private final Region target;
  private final WireWait wait;
  private final int peer;
  private long pings;
  private long streamed;
  private long streams;

  /**
   * Opens the wire; called on both ranks.
   *
   * @param largest maximum size of a put in bytes
   */
  public WireBench(Group group, CommandAgreement agreement, WireConfig config, long largest) {
    this.group = group;
    this.agreement = agreement;
    this.config = config;
    wire = Wires.open(group, config);
    source = wire.allocate(largest, TIMEOUT);
    target = wire.allocate(largest, TIMEOUT);
    wait = new WireWait(wire, 0, TIMEOUT);
    peer = 1 - group.rank();
  }

  /** Name of the wire. */
  String name() {
    return wire.name();
  }

  /**
   * Times puts of one size. The call takes a few times {@code time}, or longer if a few puts exceed
   * it.
   *
   * @param time target duration of the stream, and maximum duration of the round trips
   * @throws VerificationFailure on both ranks if received bytes differ from sent bytes
   */
  public WireSpeed measure(long bytes, Duration time) {
    fill(source.segment(), bytes);
    long trips = fitting(count -> nanos(roundTrips(bytes, count)), time, MAX_ROUND_TRIPS);
    double[] latency = roundTrips(bytes, trips);
    long puts = fitting(count -> stream(bytes, count), time, MAX_PUTS);
    long nanos = stream(bytes, puts);
    verify(bytes);
    boolean connected = wire.name().equals(WireName.TCP) || wire.name().equals(WireName.UCX);
    return new WireSpeed(
        wire.name(),
        wire.config().lanes(),
        connected ? config.connections() : 0,
        bytes,
        puts,
        nanos,
        latency);
  }

  /**
   * Number of repetitions that fit into a duration, found by doubling; called on both ranks. Also
   * warms up the work.
   *
   * @param work runs a number of repetitions and returns nanoseconds; the result of rank 0 counts
   */
  private long fitting(LongUnaryOperator work, Duration time, long max) {
    long count = 1;
    while (true) {
      // The time of rank 0 counts.
      long nanos = agreement.numbers(new long[] {work.applyAsLong(count)})[0][0];
      if (nanos >= time.toNanos() / WARM_PART || 2 * count > max) {
        return Math.clamp(
            (long) ((double) count * time.toNanos() / Math.max(1, nanos)), LEAST, max);
      }
      count *= 2;
    }
  }

  private static long nanos(double[] halfMicros) {
    return (long) (2e3 * Arrays.stream(halfMicros).sum());
  }

  private double[] roundTrips(long bytes, long trips) {
    double[] micros = new double[Math.toIntExact(trips)];
    Lane lane = wire.lane(peer, 0);
    agreement.barrier();
    for (int i = 0; i < micros.length; i++) {
      pings++;
      if (group.rank() == 0) {
        long start = System.nanoTime();
        wait.put(lane, source, 0, target, 0, bytes, PING);
        wait.counter(PONG, pings, peer);
        micros[i] = (System.nanoTime() - start) / 2e3;
      } else {
        wait.counter(PING, pings, peer);
        wait.put(lane, source, 0, target, 0, bytes, PONG);
      }
    }
    wait.flush(lane);
    return micros;
  }

  /** Runs a stream; returns nanoseconds on rank 0. */
  private long stream(long bytes, long puts) {
    streamed += puts;
    streams++;
    agreement.barrier();
    long start = System.nanoTime();
    if (group.rank() == 0) {
      int lanes = wire.config().lanes();
      for (long i = 0; i < puts; i++) {
        Lane lane = wire.lane(peer, (int) (i % lanes));
        wait.put(lane, source, 0, target, 0, bytes, STREAM);
        if (i % 64 == 0) {
          wire.poll(0);
        }
      }
      wait.counter(DONE, streams, peer);
    } else {
      wait.counter(STREAM, streamed, peer);
      wait.add(wire.lane(peer, 0), DONE, 1);
      wait.flush(wire.lane(peer, 0));
    }
    return System.nanoTime() - start;
  }

  private void verify(long bytes) {
    String mismatch = "";
    if (group.rank() == 1) {
      // The source of both ranks has the same content.
      long at = MemorySegment.mismatch(source.segment(), 0, bytes, target.segment(), 0, bytes);
      if (at >= 0) {
        mismatch =
            "byte %d of a put of %d bytes over wire %s is wrong".formatted(at, bytes, wire.name());
      }
    }
    List<String> mismatches = agreement.texts(mismatch);
    if (!mismatches.isEmpty()) {
      throw new VerificationFailure(mismatches.getFirst());
    }
  }

  private static void fill(MemorySegment segment, long bytes) {
    for (long i = 0; i < bytes; i++) {
      segment.set(ValueLayout.JAVA_BYTE, i, (byte) (i * 31 + bytes + (i >>> 8)));
    }
  }

  @Override
  public void close() {
    // This rank has flushed; the other rank may still wait for puts from its queues.
    agreement.barrier();
    wire.close();
  }
}
