package org.ep4j.conformance;

import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.conformance.round.DeviceArena;
import org.ep4j.conformance.round.HighThroughputStep;
import org.ep4j.conformance.round.LowLatencyRoundTrip;
import org.ep4j.conformance.round.RankContext;
import org.ep4j.conformance.round.Shape;
import org.ep4j.conformance.world.CaseWatchdog;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Random cases against the oracle. Arguments: engine, seed, number of cases, whether they include
 * low-latency operations, wire between nodes (empty: one node), whether they include
 * high-throughput operations, whether ranks are masked; case i has seed + i. Every case is a buffer
 * of a random shape and a random sequence of operations on it.
 */
final class PropertyJob implements RankJob {
  private static final int MAX_STEPS = 8;

  @Override
  public void run(Group group, List<String> arguments) {
    String engine = arguments.get(0);
    long seed = Long.parseLong(arguments.get(1));
    int cases = Integer.parseInt(arguments.get(2));
    boolean lowLatency = Boolean.parseBoolean(arguments.get(3));
    String wire = arguments.get(4);
    boolean highThroughput = Boolean.parseBoolean(arguments.get(5));
    boolean masks = Boolean.parseBoolean(arguments.get(6));
    Drawing drawing = new Drawing(lowLatency, highThroughput, masks, wire);
    try (DeviceArena deviceArena = deviceArena(group, engine)) {
      for (int i = 0; i < cases; i++) {
        runCase(group, engine, seed + i, drawing, deviceArena);
      }
      deviceArena.settle();
    }
  }

  private static DeviceArena deviceArena(Group group, String engine) {
    String what = "rank " + group.rank() + " of " + group.size() + ", before the first case,";
    try (CaseWatchdog _ = new CaseWatchdog(what, () -> "first buffer, and memory for tensors")) {
      return DeviceArena.open(group, engine);
    }
  }

  /** Kinds of operations in the cases. */
  private record Drawing(boolean lowLatency, boolean highThroughput, boolean masks, String wire) {}

  private static void runCase(
      Group group, String engine, long seed, Drawing drawing, DeviceArena deviceArena) {
    SplittableRandom shared = new SplittableRandom(seed);
    String wire = drawing.wire;
    Shape shape =
        Shape.draw(group.size(), drawing.lowLatency, drawing.highThroughput, wire, shared);
    SplittableRandom own = new SplittableRandom(~seed * (group.rank() + 1));
    RankContext.Counts counts = new RankContext.Counts();
    String rank = "rank " + group.rank() + " of " + group.size();
    String repeat = "-Dep4j.seed=" + seed + " -Dep4j.cases=1 -Dep4j.ranks=" + group.size();
    try (CaseWatchdog _ = new CaseWatchdog(rank + ", " + repeat + ",", () -> counts.last);
        ExpertBuffer buffer = ExpertBuffer.open(group, shape.config(engine, wire))) {
      RankContext in = new RankContext(buffer, shape, shared, own, deviceArena, counts);
      for (int steps = shared.nextInt(1, MAX_STEPS + 1); steps > 0; steps--) {
        runStep(in, drawing.masks);
      }
      in.next("statistics");
      checkStatistics(in);
      in.next("close");
    } catch (RuntimeException | AssertionError e) {
      throw new AssertionError(
          "%s, in '%s' of %s: %s; repeat with %s"
              .formatted(rank, counts.last, shape, e.getMessage(), repeat),
          e);
    }
  }

  private static void runStep(RankContext in, boolean masks) {
    int kind = in.shared().nextInt(20);
    boolean highThroughput = in.shape().maxTokens() > 0;
    boolean lowLatency = in.shape().lowLatencyMaxTokens() > 0;
    if (in.own().nextInt(10) == 0) {
      in.buffer().setParallelism(in.own().nextInt(4));
    }
    if (kind == 0) {
      in.next("barrier");
      in.buffer().barrier();
      return;
    }
    if (kind == 1) {
      in.next("reset");
      in.buffer().reset();
      return;
    }
    if (kind == 2 && masks && lowLatency && in.shape().ranks() > 1) {
      runMasked(in);
      return;
    }
    if (highThroughput && (!lowLatency || kind % 2 == 0)) {
      HighThroughputStep.run(in);
      return;
    }
    runLowLatency(in);
  }

  private static void runLowLatency(RankContext in) {
    boolean[] none = new boolean[in.shape().ranks()];
    boolean two = in.shared().nextInt(3) == 0;
    boolean hooked = in.shared().nextBoolean();
    in.deviceArena().release(0);
    try (Arena arena = Arena.ofShared()) {
      LowLatencyRoundTrip first = new LowLatencyRoundTrip(in, arena, hooked, none);
      if (!two) {
        fly(first);
        return;
      }
      LowLatencyRoundTrip second = new LowLatencyRoundTrip(in, arena, hooked, none);
      first.sendDispatch();
      second.sendDispatch();
      if (hooked && in.own().nextBoolean()) {
        second.tryThird();
      }
      first.receiveDispatch();
      second.receiveDispatch();
      first.sendCombine();
      second.sendCombine();
      first.receiveCombine();
      second.receiveCombine();
    }
  }

  private static void fly(LowLatencyRoundTrip roundTrip) {
    roundTrip.sendDispatch();
    roundTrip.receiveDispatch();
    roundTrip.sendCombine();
    roundTrip.receiveCombine();
  }

  /** One rank takes no part, masked by the others; then all ranks are admitted again. */
  private static void runMasked(RankContext in) {
    int ranks = in.shape().ranks();
    int aside = in.shared().nextInt(ranks);
    boolean[] masked = new boolean[ranks];
    masked[aside] = true;
    in.deviceArena().release(0);
    try (Arena arena = Arena.ofShared()) {
      LowLatencyRoundTrip roundTrip =
          new LowLatencyRoundTrip(in.branch(), arena, in.shared().nextBoolean(), masked);
      // A masked rank may still read rows that the others sent before.
      in.buffer().barrier();
      if (in.rank() != aside) {
        in.buffer().updateMask(aside, true);
        checkMask(in, masked);
        fly(roundTrip);
      }
      in.buffer().barrier();
      in.buffer().cleanMask();
      checkMask(in, new boolean[ranks]);
      in.buffer().barrier();
    }
  }

  private static void checkMask(RankContext in, boolean[] masked) {
    long mark = in.deviceArena().mark();
    try (Arena arena = Arena.ofShared()) {
      Tensor mask = in.empty(arena, DType.INT32, masked.length);
      in.buffer().queryMask(mask);
      int[] words = mask.toIntArray();
      for (int r = 0; r < masked.length; r++) {
        if (in.buffer().isMasked(r) != masked[r] || (words[r] == 1) != masked[r]) {
          throw new AssertionError("the mask is not " + Arrays.toString(masked));
        }
      }
    }
    in.deviceArena().release(mark);
  }

  private static void checkStatistics(RankContext in) {
    BufferStatistics statistics = in.buffer().statistics();
    RankContext.Counts counts = in.counts();
    if (statistics.dispatches() != counts.dispatches
        || statistics.combines() != counts.combines
        || statistics.combinesInPlace() > counts.combines
        || statistics.lowLatencyDispatches() != counts.lowLatencyDispatches
        || statistics.lowLatencyCombines() != counts.lowLatencyCombines) {
      throw new AssertionError(
          statistics
              + " does not count "
              + counts.dispatches
              + " dispatches, "
              + counts.combines
              + " combines, "
              + counts.lowLatencyDispatches
              + " and "
              + counts.lowLatencyCombines
              + " of low latency");
    }
  }
}
