package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.bench.Ceilings;
import org.ep4j.bench.RowCopies;
import org.ep4j.bench.Timings;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.bench.wire.WireCeiling;
import org.ep4j.config.Layout;
import org.ep4j.memory.PageArena;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.WorldRouting;
import org.jspecify.annotations.Nullable;

/**
 * Dispatch and combine of high throughput on one rank: checked by the oracle, timed, and checked
 * again. {@code benchmarks/ROUTING.md} defines what a timed operation contains.
 */
final class HighThroughputBench implements AutoCloseable {
  private static final int GROUP_ALIGNMENT = 128;
  private static final int WARMUPS = 30;
  private static final int CHECKED_WARMUPS = 5;

  /** Measurements of the wire, and minimum number of iterations between them. */
  private static final int ROUNDS = 8;

  private static final int MIN_PER_ROUND = 4;
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(10, 300, 300_000_000L, 1_500_000_000L);

  private final RankContext context;
  private final BenchSettings settings;
  private final Payload payload;
  private final int rank;
  private final Arena arena = new PageArena();
  private final List<InputSet> sets = new ArrayList<>();
  private final List<CombineOptions> combineOptions = new ArrayList<>();
  private final TrafficVolume traffic;
  private final DispatchOptions options;
  private final ExpertBuffer buffer;
  private long[] dispatchNanos = {};
  private long[] combineNanos = {};
  private WarmUp warm = WarmUp.NONE;

  HighThroughputBench(RankContext context) {
    this.rank = context.group().rank();
    int ranks = context.group().size();
    context.at("opening the buffer");
    buffer = ExpertBuffer.open(context.group(), context.settings().highThroughputConfig(ranks));
    this.context = context.acrossEqualNodes(buffer);
    this.settings = this.context.settings();
    this.payload = settings.payload();
    ExpertPlacement placement = ExpertPlacement.blocks(settings.experts(), ranks);
    context.at("drawing inputs");
    for (int b = 0; b < settings.plan().buffers(); b++) {
      sets.add(InputSet.make(settings, payload, settings.tokens(), b, rank, placement, arena));
      long bytes = payload.combineBytes(settings.hidden()) * settings.tokens();
      MemorySegment out = arena.allocate(Math.max(1, bytes), 64);
      Tensor sums = Tensor.of(out, payload.sums(), settings.tokens(), settings.hidden());
      combineOptions.add(
          CombineOptions.builder()
              .out(sums)
              .applyWeights(settings.applyWeights())
              .order(settings.order())
              .build());
    }
    List<WorldRouting> worlds = sets.stream().map(InputSet::world).toList();
    boolean grouped = settings.layout() == Layout.EXPERT_MAJOR;
    int alignment = grouped ? GROUP_ALIGNMENT : 1;
    traffic = TrafficVolume.of(worlds, settings.layout(), alignment);
    options =
        DispatchOptions.builder()
            .expertAlignment(alignment)
            .sizing(settings.staticSizes() ? Sizing.atMost(maxRows(grouped, ranks)) : Sizing.EXACT)
            .build();
  }

  /**
   * The fixed number of rows: the maximum possible (flat), or the actual maximum (expert-major).
   */
  private long maxRows(boolean grouped, int ranks) {
    return Math.max(1, grouped ? traffic.max() : (long) ranks * settings.tokens());
  }

  /** The context, with the nodes of the buffer. */
  RankContext context() {
    return context;
  }

  /** Name of the engine. */
  String engine() {
    return buffer.engine();
  }

  /** The wire between nodes; meaningless for one node. */
  String wire() {
    return buffer.config().wire();
  }

  /** Threads of a rank. */
  int threads() {
    return buffer.parallelism();
  }

  /** Runs all calls often enough for the JIT compiler. */
  void warmUp() {
    for (int i = 0; i < CHECKED_WARMUPS; i++) {
      verifySet(0);
    }
    run(0, WARMUPS);
    new Ceilings(buffer, context.agreement()).warmUp();
  }

  /** Checks the first input set; returns a report. */
  String verify() {
    long start = System.nanoTime();
    context.at("verifying");
    verifySet(0);
    return context.verified(start);
  }

  /** Checks the last input set, which is not checked before; returns a report. */
  String verifyAgain() {
    long start = System.nanoTime();
    context.at("verifying again");
    verifySet(sets.size() - 1);
    return context.verified(start);
  }

  private void verifySet(int set) {
    new HighThroughputRound(context, buffer, payload, options, combineOptions.get(set))
        .verify(sets.get(set));
  }

  /** Times the operations and measures the ceilings. */
  List<Result> measure() {
    if (!context.severalNodes()) {
      return measure(null);
    }
    try (WireCeiling wire =
        new WireCeiling(context.group(), context.agreement(), settings.nodes())) {
      return measure(wire);
    }
  }

  private List<Result> measure(@Nullable WireCeiling wire) {
    context.at("timing dispatch and combine");
    String part = "dispatch, combine " + BenchSettings.word(payload);
    measureWire(wire);
    warm =
        settings
            .plan()
            .spend(
                BUDGET,
                context.agreement(),
                this::run,
                (first, count) ->
                    context.trace().timed(part, count, () -> run(first, count, wire)));
    context.at("measuring the ceilings");
    Ceilings ceilings = new Ceilings(buffer, context.agreement());
    return List.of(dispatchResult(ceilings, wire), combineResult(ceilings, wire));
  }

  private static void measureWire(@Nullable WireCeiling wire) {
    if (wire != null) {
      wire.measure();
    }
  }

  private void run(int first, int count) {
    run(first, count, null);
  }

  /**
   * Measures the wire alternating with the operations, so that changes of the load on the machine
   * affect both.
   */
  private void run(int first, int count, @Nullable WireCeiling wire) {
    int round = Math.max(MIN_PER_ROUND, Math.ceilDiv(count, ROUNDS));
    dispatchNanos = new long[count];
    combineNanos = new long[count];
    for (int i = 0; i < count; i++) {
      int set = (first + i) % sets.size();
      InputSet input = sets.get(set);
      buffer.barrier();
      long start = System.nanoTime();
      Dispatch dispatch =
          buffer.dispatch(settings.layout(), input.tokens(), input.routing(), options);
      dispatchNanos[i] = System.nanoTime() - start;
      Tensor rows = dispatch.combineInput(payload.sums());
      buffer.barrier();
      start = System.nanoTime();
      buffer.combine(rows, dispatch.handle(), combineOptions.get(set));
      combineNanos[i] = System.nanoTime() - start;
      dispatch.handle().close();
      if ((i + 1) % round == 0 || i + 1 == count && count >= MIN_PER_ROUND) {
        measureWire(wire);
      }
    }
  }

  private Result dispatchResult(Ceilings ceilings, @Nullable WireCeiling wire) {
    InputSet first = sets.getFirst();
    long rowBytes = payload.rows().bytes(settings.hidden());
    RowCopies copies = RowCopies.of(first.world(), rank, settings.layout());
    MemorySegment x = first.tokens().x().segment();
    double bytes = traffic.mean() * payload.dispatchBytes(settings.hidden());
    double ceiling = ceilings.copyMicros(x, rowBytes, copies, (long) bytes);
    InternodeTraffic crossing = crossing(wire, payload.dispatchBytes(settings.hidden()));
    return result("dispatch", BenchSettings.word(payload), dispatchNanos, bytes, ceiling, crossing);
  }

  private Result combineResult(Ceilings ceilings, @Nullable WireCeiling wire) {
    double bytes = traffic.mean() * payload.combineBytes(settings.hidden());
    String dtype = BenchSettings.word(payload.sums());
    InternodeTraffic crossing = crossing(wire, payload.combineBytes(settings.hidden()));
    double ceiling = ceilings.readMicros((long) bytes);
    return result("combine", dtype, combineNanos, bytes, ceiling, crossing);
  }

  /** Traffic between nodes: each row once per node, in a combine as a partial sum. */
  private @Nullable InternodeTraffic crossing(@Nullable WireCeiling wire, long rowBytes) {
    if (wire == null) {
      return null;
    }
    List<WorldRouting> worlds = sets.stream().map(InputSet::world).toList();
    double rows = TrafficVolume.crossing(worlds, settings.nodes());
    double withOwnNode = TrafficVolume.crossingWithOwnNode(worlds, settings.nodes());
    return new InternodeTraffic(
        wire.wire(), wire.lanes(), rows, rows * rowBytes, withOwnNode * rowBytes, wire.gbps());
  }

  private Result result(
      String operation,
      String dtype,
      long[] nanos,
      double bytes,
      double ceilingMicros,
      @Nullable InternodeTraffic crossing) {
    double share = traffic.mean() == 0 ? 0 : traffic.meanRemote() / traffic.mean();
    return new Result(
        operation,
        dtype,
        Timings.longestOf(context.agreement().numbers(nanos)),
        traffic.mean(),
        bytes,
        bytes * share,
        ceilingMicros,
        crossing,
        warm);
  }

  @Override
  public void close() {
    buffer.close();
    arena.close();
  }
}
