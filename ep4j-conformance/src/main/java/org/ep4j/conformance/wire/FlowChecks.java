package org.ep4j.conformance.wire;

import static org.ep4j.conformance.wire.WireContext.check;
import static org.ep4j.conformance.wire.WireContext.fill;
import static org.ep4j.conformance.wire.WireContext.lane;
import static org.ep4j.conformance.wire.WireContext.verify;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Objects;
import java.util.stream.LongStream;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.support.CollectiveStep;

/** Flow control, slow and lost peers, and refused calls. */
final class FlowChecks {
  private static final int ROUNDS = 500;
  private static final Duration PAUSE = Duration.ofMillis(300);
  private static final int[] SILENT_SIZES = {8, 4096, 4097, 30_000, 65_536, 262_144, 524_288};
  private static final int LAST_WORDS = 200;
  private static final Duration SILENCE = Duration.ofSeconds(10);

  private FlowChecks() {}

  /**
   * A peer that does not poll blocks no other rank, accepts a bounded amount of work, and gets all
   * of it later.
   */
  static void aSlowPeerHoldsUpOnlyItself(WireContext context) throws InterruptedException {
    int window = 32;
    long bytesWindow = 1 << 20;
    WireConfig.Builder config =
        WireConfig.builder().operationsInFlight(window).bytesInFlight(bytesWindow);
    int slow = context.size() - 1;
    long bytes = 100_000;
    try (Wire wire = context.open(config)) {
      Region source = context.region(wire, bytes);
      Region target = context.region(wire, bytes);
      WireWait wait = context.waiting(wire, 0);
      long toSlow = 0;
      if (context.rank() == slow) {
        Thread.sleep(PAUSE);
      } else {
        for (int round = 0; round < ROUNDS; round++) {
          Lane lane = lane(wire, slow, round);
          toSlow += lane.put(source, 0, target, 0, bytes, 0) > 0 ? 1 : 0;
          long inFlight = 0;
          for (int i = 0; i < wire.config().lanes(); i++) {
            inFlight += lane(wire, slow, i).accepted() - lane(wire, slow, i).delivered();
          }
          check(
              context.setup().faults()
                  || inFlight <= window && inFlight * bytes <= bytesWindow + bytes,
              inFlight + " pieces of work are in flight");
          // The other ranks continue meanwhile.
          for (int peer = 0; peer < slow; peer++) {
            if (peer != context.rank()) {
              wait.put(lane(wire, peer, 0), source, 0, target, 0, 10, 1);
            }
          }
          wait.counter(1, (round + 1L) * (slow - 1), -1);
        }
        wait.until(() -> allAccepted(wire, slow), "the slow peer's work");
      }
      // Every rank sends the slow one the number of puts; the slow rank waits for as many.
      if (context.rank() != slow) {
        wait.add(lane(wire, slow, 0), 2, toSlow);
        wait.add(lane(wire, slow, 0), 3, 1);
      } else {
        wait.counter(3, slow, -1);
        wait.counter(0, wire.counters().get(2), -1);
      }
      new WireBarrier(wire).meet();
      check(wire.counters().get(0) == wire.counters().get(2), "counted more than was put");
    }
  }

  private static boolean allAccepted(Wire wire, int peer) {
    boolean all = true;
    for (int i = 0; i < wire.config().lanes(); i++) {
      all &= wire.lane(peer, i).flush();
    }
    return all;
  }

  /**
   * Once flush reports that work has left, the work arrives although the sender no longer polls: it
   * may wait elsewhere, for this very work. Receivers poll at once, late, or occasionally, so that
   * work is at different stages when it has left.
   */
  static void whatHasLeftArrivesWithoutTheSender(WireContext context) throws InterruptedException {
    int sender = 0;
    int rounds = 3 * SILENT_SIZES.length;
    long slot = 512 << 10;
    try (Wire wire = context.open()) {
      Region source = context.region(wire, slot);
      Region target = context.region(wire, slot);
      WireWait wait = new WireWait(wire, 0, SILENCE);
      for (int round = 0; round < rounds; round++) {
        long bytes = SILENT_SIZES[round / 3];
        if (context.rank() == sender) {
          fill(source.segment(), 0, bytes, round);
          for (int peer = 1; peer < context.size(); peer++) {
            wait.put(lane(wire, peer, round), source, 0, target, 0, bytes, 0);
            wait.add(lane(wire, peer, round), 1, 1);
          }
          for (int peer = 1; peer < context.size(); peer++) {
            wait.flush(lane(wire, peer, round));
          }
        } else {
          receiveFromSilence(wire, wait, round);
          check(wire.counters().get(0) == round + 1L, "counted " + wire.counters().get(0));
          verify(target.segment(), 0, bytes, round, "round " + round + " of a silent sender");
        }
        context.barrier();
      }
    }
  }

  private static void receiveFromSilence(Wire wire, WireWait wait, int round)
      throws InterruptedException {
    if (round % 3 == 1) {
      Thread.sleep(20);
    }
    long end = System.nanoTime() + SILENCE.toNanos();
    while (round % 3 == 2 && wire.counters().get(1) <= round && System.nanoTime() - end < 0) {
      int _ = wire.poll(0);
      Thread.sleep(1);
    }
    wait.counter(1, round + 1L, 0);
  }

  /**
   * Final messages leave, and flush reports it, although the peer has stopped polling: a rank stops
   * as soon as it has received all it waits for. Before them, work of all sizes was in flight and
   * has been delivered. A wire may need space at the peer for work that leaves at once, so faults,
   * which split work, are not injected here.
   */
  static void lastWordsLeaveThoughThePeerHasStoppedPolling(WireContext context) {
    if (context.setup().faults()) {
      return;
    }
    int sender = 0;
    long slot = SILENT_SIZES[SILENT_SIZES.length - 1];
    try (Wire wire = context.open()) {
      Region source = context.region(wire, slot);
      Region target = context.region(wire, slot);
      WireWait wait = new WireWait(wire, 0, SILENCE);
      WireBarrier barrier = new WireBarrier(wire);
      int lanes = wire.config().lanes();
      for (int round = 0; round < SILENT_SIZES.length; round++) {
        for (int i = 0; context.rank() == sender && i < lanes * (context.size() - 1); i++) {
          Lane lane = wire.lane(1 + i / lanes, i % lanes);
          wait.put(lane, source, 0, target, 0, SILENT_SIZES[round], 0);
        }
        barrier.meet();
        if (context.rank() == sender) {
          fill(source.segment(), 0, LAST_WORDS, round);
          for (int i = 0; i < lanes * (context.size() - 1); i++) {
            wait.put(wire.lane(1 + i / lanes, i % lanes), source, 0, target, 0, LAST_WORDS, 1);
            wait.add(wire.lane(1 + i / lanes, i % lanes), 2, 1);
          }
          for (int i = 0; i < lanes * (context.size() - 1); i++) {
            wait.flush(wire.lane(1 + i / lanes, i % lanes));
          }
        }
        context.barrier();
        if (context.rank() != sender) {
          wait.counter(2, (round + 1L) * lanes, sender);
          check(
              wire.counters().get(1) == (round + 1L) * lanes, "counted " + wire.counters().get(1));
          verify(target.segment(), 0, LAST_WORDS, round, "last words of round " + round);
        }
        context.barrier();
      }
    }
  }

  /**
   * Work that has left arrives although its sender closes with unread input: closing a socket with
   * unread input would discard data that its peer has not read.
   */
  static void whatHasLeftArrivesThoughTheSenderCloses(WireContext context)
      throws InterruptedException {
    int closer = 0;
    for (int bytes : SILENT_SIZES) {
      try (Wire wire = context.open()) {
        Region source = context.region(wire, bytes);
        Region target = context.region(wire, bytes);
        WireWait wait = new WireWait(wire, 0, SILENCE);
        if (context.rank() == closer) {
          fill(source.segment(), 0, bytes, bytes);
          for (int peer = 1; peer < context.size(); peer++) {
            wait.put(lane(wire, peer, bytes), source, 0, target, 0, bytes, 0);
            wait.add(lane(wire, peer, bytes), 1, 1);
          }
          for (int peer = 1; peer < context.size(); peer++) {
            wait.flush(lane(wire, peer, bytes));
          }
        } else {
          lane(wire, closer, bytes).put(source, 0, target, 0, bytes, 0);
          if (context.rank() == 1) {
            lane(wire, closer, bytes).flush();
            Thread.sleep(50);
          }
          wait.counter(1, 1, closer);
          check(wire.counters().get(0) == 1, "counted " + wire.counters().get(0));
          verify(target.segment(), 0, bytes, bytes, bytes + " bytes of a rank that has closed");
        }
      }
      context.barrier();
    }
  }

  /** A rank that closes while others send fails their lanes to it, and no other lanes. */
  static void closingDuringTrafficFailsOnlyTheLanesOfTheCloser(WireContext context) {
    int closer = 0;
    long bytes = 70_000;
    Wire wire = context.open();
    try (wire) {
      Region source = context.region(wire, bytes);
      Region target = context.region(wire, bytes);
      WireWait wait = context.waiting(wire, 0);
      for (int peer = 0; peer < context.size(); peer++) {
        for (int i = 0; peer != context.rank() && i < 3; i++) {
          Lane lane = lane(wire, peer, i);
          // The closed rank may already be unreachable.
          wait.until(() -> lane.put(source, 0, target, 0, bytes, 0) != Lane.BACK_PRESSURED, "room");
        }
      }
      if (context.rank() == closer) {
        wait.counter(0, 1, -1);
        return;
      }
      LaneFailure failure = pushUntilFailed(wire, wait, source, target, closer);
      check(failure.peer() == closer, "failure names " + failure.peer());
      check(
          failure.cause() == Cause.CLOSED || failure.cause() == Cause.LOST,
          "closing was seen as " + failure);
      check(failure.lost() >= 0 && failure.delivered() >= 0, failure.toString());
      for (int i = 0; i < wire.config().lanes(); i++) {
        Lane lane = wire.lane(closer, i);
        wait.until(() -> lane.failure() != null, "all lanes to the closer to fail");
        check(lane.put(source, 0, target, 0, 8, 0) == Lane.FAILED, "a failed lane took work");
        check(lane.add(0, 1) == Lane.FAILED, "a failed lane took work");
        check(lane.flush(), "a failed lane holds local bytes");
      }
      check(wire.failedLanes() == wire.config().lanes(), wire.failedLanes() + " lanes failed");
      survivorsContinue(context, wire, wait, source, target, closer);
    }
    check(context.rank() == closer || wire.failedLanes() > 0, "closed wires remember");
  }

  private static LaneFailure pushUntilFailed(
      Wire wire, WireWait wait, Region source, Region target, int closer) {
    Lane lane = lane(wire, closer, 1);
    wait.until(
        () -> {
          lane.put(source, 0, target, 0, source.bytes(), 0);
          return lane.failure() != null;
        },
        "the closer's lane to fail");
    return Objects.requireNonNull(lane.failure());
  }

  /** Rank 0 reports a path that is cut to rank 1; between the other ranks all works. */
  static void lanesThatOnlyThePeerHasFoundLostFailWithItsCause(WireContext context) {
    int reporter = 0;
    int reported = 1;
    String cause = "the cable is cut";
    try (Wire wire = context.open()) {
      Region source = context.region(wire, 100);
      Region target = context.region(wire, 100);
      WireWait wait = context.waiting(wire, 0);
      context.barrier();
      for (int i = 0; i < wire.config().lanes(); i++) {
        if (context.rank() == reporter) {
          FaultyWire.report(wire, new LaneFailure(reported, i, Cause.LOST, cause, 0, 0));
        } else if (context.rank() == reported) {
          Lane lane = wire.lane(reporter, i);
          wait.until(() -> lane.failure() != null, "a lane of the reporter to fail");
          LaneFailure failure = Objects.requireNonNull(lane.failure());
          check(failure.cause() == Cause.LOST, failure.toString());
          check(failure.text().contains("rank 0 has lost it: " + cause), failure.toString());
        }
      }
      if (context.rank() != reporter) {
        survivorsContinue(context, wire, wait, source, target, reporter);
      }
      context.barrier();
    }
  }

  /** The remaining ranks notify each other; after that no rank needs another. */
  private static void survivorsContinue(
      WireContext context, Wire wire, WireWait wait, Region source, Region target, int gone) {
    for (int peer = 0; peer < context.size(); peer++) {
      if (peer != gone && peer != context.rank()) {
        wait.put(lane(wire, peer, 2), source, 0, target, 0, 100, 9);
      }
    }
    wait.counter(9, context.size() - 2, -1);
    for (int peer = 0; peer < context.size(); peer++) {
      if (peer != gone && peer != context.rank()) {
        wait.delivery(lane(wire, peer, 2));
        wait.add(lane(wire, peer, 2), 10, 1);
        wait.flush(lane(wire, peer, 2));
      }
    }
    wait.counter(10, context.size() - 2, -1);
  }

  /** Invalid calls are refused before anything is sent, and change nothing. */
  static void mistakesAreRefused(WireContext context) {
    Wire wire = context.open(WireConfig.builder().lanes(2).counters(16));
    int right = (context.rank() + 1) % context.size();
    Region region = context.region(wire, 100);
    Lane lane = wire.lane(right, 0);
    refused(() -> lane.put(region, -1, region, 0, 1, 0));
    refused(() -> lane.put(region, 0, region, -1, 1, 0));
    refused(() -> lane.put(region, 0, region, 0, -1, 0));
    refused(() -> lane.put(region, 0, region, 0, 101, 0));
    refused(() -> lane.put(region, 1, region, 0, 100, 0));
    refused(() -> lane.put(region, 0, region, 1, 100, 0));
    refused(() -> lane.put(region, 0, region, Long.MAX_VALUE, 100, 0));
    refused(() -> lane.put(region, Long.MAX_VALUE, region, 0, 100, 0));
    refused(() -> lane.put(region, 0, region, 0, 1, 16));
    refused(() -> lane.put(region, 0, region, 0, 1, -2));
    refused(() -> lane.add(-1, 1));
    refused(() -> lane.add(16, 1));
    refused(() -> wire.lane(context.rank(), 0));
    refused(() -> wire.lane(context.size(), 0));
    refused(() -> wire.lane(-1, 0));
    refused(() -> wire.lane(right, 2));
    refused(() -> wire.poll(1));
    check(lane.accepted() == 0 && lane.failure() == null, "a mistake was accepted");
    Region closed = context.region(wire, 10);
    WireBarrier barrier = new WireBarrier(wire);
    barrier.meet();
    closed.close();
    if (!context.setup().faults()) {
      illegal(() -> lane.put(closed, 0, region, 0, 1, 0));
      illegal(() -> lane.put(region, 0, closed, 0, 1, 0));
    }
    barrier.meet();
    wire.close();
    wire.close();
    illegal(() -> wire.poll(0));
    illegal(() -> context.region(wire, 1));
  }

  private static void refused(Runnable call) {
    try {
      call.run();
    } catch (InvalidArgumentException e) {
      return;
    }
    throw new AssertionError("a mistake was not refused");
  }

  private static void illegal(Runnable call) {
    try {
      call.run();
    } catch (IllegalStateException e) {
      return;
    }
    throw new AssertionError("use after close was not refused");
  }

  /**
   * Once warm, putting, counting and polling allocate nothing, except under the exceptions below.
   * The JVM charges its own allocations to the thread that causes them, so one round without any is
   * enough; the rounds end when every rank has had one.
   */
  static void nothingIsAllocatedOnceWarm(WireContext context) {
    // Faults allocate. TLS of the JDK does, and so does its selector over many sockets.
    WireSetup setup = context.setup();
    if (setup.faults() || setup.encrypted() || setup.connections() > 4) {
      return;
    }
    var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    long large = 300_000;
    try (Wire wire = context.open()) {
      Region source = context.region(wire, large);
      Region target = context.region(wire, large);
      WireWait wait = context.waiting(wire, 0);
      int right = (context.rank() + 1) % context.size();
      int left = (context.rank() + context.size() - 1) % context.size();
      long least = Long.MAX_VALUE;
      int calls = 200;
      for (int round = 0; round < 40 && !allBelow(context, least, calls); round++) {
        long before = threads.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < calls; i++) {
          Lane lane = wire.lane(right, i % wire.config().lanes());
          wait.put(lane, source, 0, target, 0, i % 4 == 0 ? large : 16, 0);
          wait.add(lane, 1, 1);
          wait.counter(1, (long) round * calls + i + 1, left);
          wait.flush(lane);
        }
        least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
      }
      new WireBarrier(wire).meet();
      check(least < calls, least + " bytes were allocated for " + calls + " puts and adds");
    }
  }

  /** Whether the numbers of all ranks are below a limit; collective. */
  private static boolean allBelow(WireContext context, long number, long limit) {
    long[] numbers = CollectiveStep.numbers(context.group(), "", number, WireContext.TIMEOUT);
    return LongStream.of(numbers).allMatch(each -> each < limit);
  }
}
