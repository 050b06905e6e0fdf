package org.ep4j.conformance.wire;

import static org.ep4j.conformance.wire.WireContext.check;
import static org.ep4j.conformance.wire.WireContext.fill;
import static org.ep4j.conformance.wire.WireContext.lane;
import static org.ep4j.conformance.wire.WireContext.verify;
import static org.ep4j.conformance.wire.WireContext.verifyFrom;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.WireWait;

/** Checks of arriving bytes and counters. */
final class ContentChecks {
  private static final int[] SIZES = {
    0, 1, 3, 7, 8, 9, 31, 64, 127, 1000, 4095, 4096, 4097, 16_383, 16_385, 65_537, 262_143
  };
  private static final long LARGEST = (5L << 20) + 13;

  private ContentChecks() {}

  /**
   * Every byte of a put is visible once its counter has grown; bytes outside the put are unchanged.
   */
  static void bytesAreVisibleOnceCounted(WireContext context) {
    long slot = LARGEST + 64;
    try (Wire wire = context.open()) {
      Region source = context.region(wire, slot);
      Region target = context.region(wire, slot * context.size());
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      int rounds = repetitions(context) * (SIZES.length + 1);
      for (int round = 0; round < rounds; round++) {
        long bytes =
            round % (SIZES.length + 1) < SIZES.length ? SIZES[round % (SIZES.length + 1)] : LARGEST;
        long from = context.shared().nextInt(16);
        long to = context.shared().nextInt(16);
        fill(source.segment(), from, bytes, tag(context.rank(), round));
        for (int peer = 0; peer < context.size(); peer++) {
          if (peer != context.rank()) {
            Lane lane = lane(wire, peer, round);
            wait.put(lane, source, from, target, slot * context.rank() + to, bytes, context.rank());
          }
        }
        for (int peer = 0; peer < context.size(); peer++) {
          if (peer != context.rank()) {
            String what = "put of %d bytes in round %d from rank %d".formatted(bytes, round, peer);
            wait.counter(peer, round + 1, peer);
            MemorySegment part = target.segment().asSlice(slot * peer, slot);
            verify(part, to, bytes, tag(peer, round), what);
            check(to == 0 || part.get(ValueLayout.JAVA_BYTE, to - 1L) == 0, "byte before " + what);
            check(part.get(ValueLayout.JAVA_BYTE, to + bytes) == 0, "byte after " + what);
          }
        }
        barrier.meet();
        target.segment().fill((byte) 0);
        barrier.meet();
      }
    }
  }

  /** How often each size is put: without its optimizing compiler, the JVM encrypts slowly. */
  private static int repetitions(WireContext context) {
    return context.setup().encrypted() ? TestScale.of(1, 2) : 2;
  }

  private static long tag(int rank, int round) {
    return rank * 1000L + round;
  }

  /** A counter counts each put once, for every peer and lane. */
  static void everyPutIsCountedOnce(WireContext context) {
    int puts = 300;
    try (Wire wire = context.open()) {
      Region source = context.region(wire, 4096);
      Region target = context.region(wire, 4096);
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      for (int i = 0; i < puts; i++) {
        for (int peer = 0; peer < context.size(); peer++) {
          if (peer != context.rank()) {
            wait.put(lane(wire, peer, i), source, 0, target, 0, i * 13 % 4096, 5);
            wait.add(lane(wire, peer, i), 6, i);
          }
        }
      }
      long others = context.size() - 1L;
      wait.counter(5, others * puts, -1);
      wait.counter(6, others * puts * (puts - 1) / 2, -1);
      barrier.meet();
      check(wire.counters().get(5) == others * puts, "counted " + wire.counters().get(5));
      check(
          wire.counters().get(6) == others * puts * (puts - 1) / 2,
          "added " + wire.counters().get(6));
      check(wire.counters().get(4) == 0 && wire.counters().get(7) == 0, "a neighbour was counted");
    }
  }

  /** An add is visible only after every earlier put of its lane. */
  static void addFollowsThePutsBeforeIt(WireContext context) {
    int rounds = 200;
    int depth = 4;
    int puts = 5;
    int bytes = 700;
    long slot = (long) puts * bytes;
    try (Wire wire = context.open()) {
      int right = (context.rank() + 1) % context.size();
      int left = (context.rank() + context.size() - 1) % context.size();
      Region source = context.region(wire, slot * depth);
      Region target = context.region(wire, slot * depth);
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      // Counter 0: rounds that arrived from the left; 1: rounds that the right has read.
      for (int round = 0; round < rounds; round++) {
        wait.counter(1, round - depth + 1L, right);
        Lane lane = lane(wire, right, 1);
        if (round >= depth) {
          wait.flush(lane);
        }
        long at = round % depth * slot;
        for (int i = 0; i < puts; i++) {
          fill(source.segment(), at + (long) i * bytes, bytes, tag(context.rank(), round) + i);
          wait.put(lane, source, at + (long) i * bytes, target, at + (long) i * bytes, bytes, -1);
        }
        wait.add(lane, 0, 1);
        wait.counter(0, round + 1, left);
        for (int i = 0; i < puts; i++) {
          verify(target.segment(), at + (long) i * bytes, bytes, tag(left, round) + i, "put " + i);
        }
        wait.add(lane(wire, left, 2), 1, 1);
      }
      barrier.meet();
    }
  }

  /** Flushed memory may be overwritten: the peer still gets the bytes of the put. */
  static void bytesMayChangeOnceTheyHaveLeft(WireContext context) {
    long slot = 3_000_000;
    try (Wire wire = context.open()) {
      int right = (context.rank() + 1) % context.size();
      int left = (context.rank() + context.size() - 1) % context.size();
      Region source = context.region(wire, slot);
      int rounds = 6;
      Region target = context.region(wire, slot * rounds);
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      for (int round = 0; round < rounds; round++) {
        long bytes = round % 2 == 0 ? slot : 500;
        fill(source.segment(), 0, bytes, tag(context.rank(), round));
        Lane lane = lane(wire, right, round);
        wait.put(lane, source, 0, target, slot * round, bytes, 0);
        wait.flush(lane);
        source.segment().fill((byte) 0);
      }
      wait.counter(0, rounds, left);
      for (int round = 0; round < rounds; round++) {
        long bytes = round % 2 == 0 ? slot : 500;
        verify(target.segment(), slot * round, bytes, tag(left, round), "round " + round);
      }
      barrier.meet();
    }
  }

  /** Many small puts at full speed. */
  static void manySmallPutsArrive(WireContext context) {
    int puts =
        Integer.getInteger(
            "ep4j.puts", context.setup().faults() ? 2_000 : TestScale.of(10_000, 1_000_000));
    int slots = 4096;
    try (Wire wire = context.open()) {
      int right = (context.rank() + 1) % context.size();
      int left = (context.rank() + context.size() - 1) % context.size();
      Region source = context.region(wire, 8L * puts);
      Region target = context.region(wire, 8L * slots);
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      for (int i = 0; i < puts; i++) {
        source.segment().setAtIndex(ValueLayout.JAVA_LONG, i, i + 1L);
      }
      for (int i = 0; i < puts; i++) {
        long to = 8L * (i % slots);
        wait.put(lane(wire, right, i), source, 8L * i, target, to, 8, 3);
        if (i % 64 == 0) {
          wire.poll(0);
        }
      }
      wait.counter(3, puts, left);
      barrier.meet();
      check(wire.counters().get(3) == puts, "counted " + wire.counters().get(3));
      for (int i = 0; i < slots; i++) {
        long seen = target.segment().getAtIndex(ValueLayout.JAVA_LONG, i);
        boolean written = i < puts;
        check(
            written ? seen >= 1 && seen <= puts && (seen - 1) % slots == i : seen == 0,
            "slot " + i + " holds " + seen);
      }
    }
  }

  /** One put of more bytes than an int can count. */
  static void aHugePutArrives(WireContext context) {
    long bytes = (1L << 31) + 1;
    int right = (context.rank() + 1) % context.size();
    int left = (context.rank() + context.size() - 1) % context.size();
    try (Wire wire = context.open()) {
      Region source = context.region(wire, bytes);
      Region target = context.region(wire, bytes + 8);
      WireWait wait = context.waiting(wire, 0);
      fill(source.segment(), 0, bytes, context.rank());
      wait.put(lane(wire, right, 0), source, 0, target, 1, bytes, 0);
      wait.counter(0, 1, left);
      verify(target.segment(), 1, bytes, left, "put of 2 GiB + 1");
      new WireBarrier(wire).meet();
    }
  }

  /** Memory of the caller as source of all puts, and as target if the wire supports it. */
  static void memoryOfTheCallerTravels(WireContext context) {
    long bytes = 100_001;
    try (Arena arena = Arena.ofShared();
        Wire wire = context.open(WireConfig.builder().lanes(1))) {
      int right = (context.rank() + 1) % context.size();
      int left = (context.rank() + context.size() - 1) % context.size();
      WireMemory own = WireMemory.host(arena.allocate(bytes));
      Region source = wire.register(own);
      check(!source.exposed() && source.bytes() == bytes, "registered region");
      Region target =
          wire.exposes(own)
              ? wire.expose(WireMemory.host(arena.allocate(bytes)), WireContext.TIMEOUT)
              : context.region(wire, bytes);
      WireWait wait = context.waiting(wire, 0);
      WireBarrier barrier = new WireBarrier(wire);
      fill(source.segment(), 0, bytes, context.rank());
      wait.put(wire.lane(right, 0), source, 0, target, 0, bytes, 0);
      wait.counter(0, 1, left);
      verify(target.segment(), 0, bytes, left, "put from registered memory");
      barrier.meet();
      source.close();
      source.close();
      target.close();
    }
  }

  /** Ranks register regions of different sizes, and some none. */
  static void regionsMayDiffer(WireContext context) {
    try (Wire wire = context.open()) {
      Region source = context.region(wire, 64);
      Region target = context.region(wire, context.rank() == 0 ? 0 : 1000L * context.rank());
      WireWait wait = context.waiting(wire, 0);
      fill(source.segment(), 0, 64, context.rank());
      for (int peer = 0; peer < context.size(); peer++) {
        check(target.bytes(peer) == 1000L * peer, "size at rank " + peer);
        if (peer != context.rank() && peer != 0) {
          long at = 1000L * peer - 64L * (context.rank() + 1);
          wait.put(lane(wire, peer, 0), source, 0, target, at, 64, 0);
        }
      }
      wait.counter(0, context.rank() == 0 ? 0 : context.size() - 1, -1);
      for (int peer = 0; context.rank() != 0 && peer < context.size(); peer++) {
        if (peer != context.rank()) {
          long at = target.bytes() - 64L * (peer + 1);
          verify(target.segment(), at, 64, peer, "put of rank " + peer);
        }
      }
      new WireBarrier(wire).meet();
    }
  }

  /** Threads that each drive one progress context do not affect each other. */
  static void progressContextsRunConcurrently(WireContext context) throws InterruptedException {
    int progressContexts = 3;
    int puts = 400;
    WireConfig.Builder config =
        WireConfig.builder().lanes(2 * progressContexts).progressContexts(progressContexts);
    try (Wire wire = context.open(config)) {
      long slot = 4096;
      Region source = context.region(wire, slot);
      Region target = context.region(wire, slot * context.size() * progressContexts);
      fill(source.segment(), 0, slot, context.rank());
      Thread[] threads = new Thread[progressContexts];
      Throwable[] failures = new Throwable[progressContexts];
      for (int progressContext = 0; progressContext < progressContexts; progressContext++) {
        int mine = progressContext;
        threads[progressContext] =
            Thread.ofPlatform()
                .daemon()
                .name("strand-" + context.rank() + "-" + progressContext)
                .uncaughtExceptionHandler((thread, failure) -> failures[mine] = failure)
                .start(() -> progressContext(context, wire, source, target, mine, puts));
      }
      for (Thread thread : threads) {
        thread.join(WireContext.TIMEOUT.toMillis());
        check(!thread.isAlive(), thread + " still runs");
      }
      for (Throwable failure : failures) {
        if (failure != null) {
          throw new AssertionError("a progress context failed", failure);
        }
      }
      new WireBarrier(wire).meet();
    }
  }

  private static void progressContext(
      WireContext context, Wire wire, Region source, Region target, int progressContext, int puts) {
    WireWait wait = context.waiting(wire, progressContext);
    int progressContexts = wire.config().progressContexts();
    SplittableRandom random = new SplittableRandom(progressContext);
    long slot = source.bytes();
    for (int i = 0; i < puts; i++) {
      long bytes = 1 + random.nextLong(slot);
      for (int peer = 0; peer < context.size(); peer++) {
        if (peer != context.rank()) {
          Lane lane = wire.lane(peer, progressContext + progressContexts * (i % 2));
          long to = slot * (context.rank() * progressContexts + progressContext);
          wait.put(lane, source, slot - bytes, target, to + slot - bytes, bytes, progressContext);
        }
      }
    }
    // No thread polls this progress context later, so its work must have left.
    for (int peer = 0; peer < context.size(); peer++) {
      for (int i = progressContext;
          peer != context.rank() && i < wire.config().lanes();
          i += progressContexts) {
        wait.flush(wire.lane(peer, i));
      }
    }
    Counters counters = wire.counters();
    long expected = (long) puts * (context.size() - 1);
    wait.counter(progressContext, expected, -1);
    check(
        counters.get(progressContext) == expected,
        "progress context counted " + counters.get(progressContext));
    for (int peer = 0; peer < context.size(); peer++) {
      if (peer != context.rank()) {
        verifyFrom(
            target.segment(),
            slot * (peer * progressContexts + progressContext) + slot / 2,
            slot / 2,
            slot / 2,
            peer,
            "half of what rank " + peer + " put");
      }
    }
  }
}
