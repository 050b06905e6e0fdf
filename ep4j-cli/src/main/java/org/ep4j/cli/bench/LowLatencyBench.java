package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.ep4j.DType;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertPlacement;
import org.ep4j.Layout;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Tensor;
import org.ep4j.bench.Ceilings;
import org.ep4j.bench.RowCopies;
import org.ep4j.bench.Timings;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Rows;

/**
 * Dispatch, combine and their pair in low latency on one rank, in each format: checked by the
 * oracle, timed, and checked again.
 */
final class LowLatencyBench implements AutoCloseable {
  private static final IterationPlan.Budget BUDGET =
      new IterationPlan.Budget(20, 1000, 300_000_000L, 400_000_000L);
  private static final int WARMUPS = 30;
  private static final int CHECKED_WARMUPS = 5;
  private static final int BF16_BYTES = 2;

  /** A timed operation. */
  @FunctionalInterface
  private interface Timed {
    /** Runs the operation with an input set; returns its nanoseconds. */
    long run(InputSet set);
  }

  private final RankContext context;
  private final BenchSettings settings;
  private final int rank;
  private final Arena arena = Arena.ofShared();
  private final List<InputSet> sets = new ArrayList<>();

  /** The layout with the same number of rows as low latency. */
  private final Layout layout;

  private final TrafficVolume traffic;
  private final ExpertBuffer buffer;
  private final PrivateMemory expertMemory;
  private final Tensor expertRows;
  private final Tensor out;
  private final LowLatencyCombineOptions combineOptions;
  private long[] nanos = {};

  LowLatencyBench(RankContext context) {
    this.context = context;
    this.settings = context.settings();
    this.rank = context.group().rank();
    int ranks = context.group().size();
    int tokens = settings.lowLatencyTokens();
    int hidden = settings.hidden();
    ExpertPlacement placement = ExpertPlacement.blocks(settings.experts(), ranks);
    for (int b = 0; b < settings.plan().buffers(); b++) {
      sets.add(InputSet.make(settings, Payload.BF16, tokens, b, rank, placement, arena));
    }
    layout = settings.options().rankMajor() ? Layout.FLAT : Layout.EXPERT_MAJOR;
    traffic = TrafficVolume.of(sets.stream().map(InputSet::world).toList(), layout, 1);
    context.at("opening the low-latency buffer");
    buffer = ExpertBuffer.open(context.group(), settings.lowLatencyConfig(ranks));
    long groups = settings.latencyGroups(ranks, placement.localExperts(rank));
    long capacity = settings.latencyCapacity(ranks);
    long bytes = Math.max(1, groups * capacity * hidden * BF16_BYTES);
    // Only touched pages take memory: most of the worst case stays unused.
    expertMemory = PrivateMemory.reserve(bytes);
    expertRows =
        Tensor.of(
            NativeMemory.view(expertMemory.address(), bytes), DType.BF16, groups, capacity, hidden);
    out =
        Tensor.of(
            arena.allocate(Math.max(1, (long) tokens * hidden * BF16_BYTES), 64),
            DType.BF16,
            tokens,
            hidden);
    combineOptions =
        LowLatencyCombineOptions.builder()
            .logFmt(settings.options().logFmt())
            .zeroCopy(settings.options().zeroCopy())
            .partialRounding(settings.options().partial())
            .returnHook(settings.options().hook())
            .out(out)
            .build();
  }

  String engine() {
    return buffer.engine();
  }

  /** The wire between nodes; meaningless for one node. */
  String wire() {
    return buffer.config().wire();
  }

  int threads() {
    return buffer.parallelism();
  }

  /** Runs all calls often enough for the JIT compiler. */
  void warmUp() {
    for (Payload payload : settings.payloads()) {
      LowLatencyDispatchOptions options = dispatchOptions(payload);
      for (int i = 0; i < CHECKED_WARMUPS; i++) {
        verifySet(sets.getFirst(), payload);
      }
      run(set -> timePair(set, options), 0, WARMUPS);
    }
    new Ceilings(buffer, context.agreement()).warmUp();
  }

  /** Checks every format; returns a report. */
  String verify() {
    long start = System.nanoTime();
    context.at("verifying low latency");
    for (Payload payload : settings.payloads()) {
      verifySet(sets.getFirst(), payload);
    }
    return context.verified(start);
  }

  /** Checks every format with the last input set; returns a report. */
  String verifyAgain() {
    long start = System.nanoTime();
    context.at("verifying low latency again");
    for (Payload payload : settings.payloads()) {
      verifySet(sets.getLast(), payload);
    }
    return context.verified(start);
  }

  private void verifySet(InputSet set, Payload payload) {
    LatencyOracle oracle = new LatencyOracle(settings, set.world());
    LowLatencyDispatchOptions options = dispatchOptions(payload);
    LowLatencyDispatch dispatch = dispatch(set, options);
    Rows sent = set.inputs().rows(Inputs.Part.PAYLOAD, DType.BF16, settings.hidden());
    context.verify(() -> oracle.checkDispatch(rank, dispatch, sent, options));
    fillExpertRows(set, dispatch.handle(), oracle.receiveCounts(rank));
    combine(set, dispatch.handle());
    if (payload != settings.payload()) {
      return; // the combine does not depend on the format of the dispatch
    }
    Rows returned = set.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, settings.hidden());
    context.verify(() -> oracle.checkCombine(rank, out, returned, combineOptions));
  }

  /** Writes the rows of the experts, with zero-copy into the region of the buffer. */
  private void fillExpertRows(InputSet set, LowLatencyHandle handle, int[] counts) {
    Rows rows = set.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, settings.hidden());
    Tensor target =
        settings.options().zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    long rowBytes = (long) settings.hidden() * BF16_BYTES;
    long capacity = target.size(1);
    for (int group = 0; group < counts.length; group++) {
      for (int i = 0; i < counts[group]; i++) {
        long slot = group * capacity + i;
        MemorySegment.copy(rows.row(rank, slot), 0, target.segment(), slot * rowBytes, rowBytes);
      }
    }
  }

  private LowLatencyDispatchOptions dispatchOptions(Payload payload) {
    return LowLatencyDispatchOptions.builder()
        .format(Objects.requireNonNull(payload.lowLatency(), "checked before"))
        .returnHook(settings.options().hook())
        .build();
  }

  private LowLatencyDispatch dispatch(InputSet set, LowLatencyDispatchOptions options) {
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            settings.options().layout(), set.tokens().x(), set.routing(), options);
    if (options.returnHook()) {
      dispatch.hook().receive();
    }
    return dispatch;
  }

  private void combine(InputSet set, LowLatencyHandle handle) {
    Tensor rows = combineOptions.zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    LowLatencyCombine combine =
        buffer.lowLatencyCombine(rows, set.routing(), handle, combineOptions);
    if (combineOptions.returnHook()) {
      combine.hook().receive();
    }
  }

  /** Times the operations in each format. */
  List<Result> measure() {
    Ceilings ceilings = new Ceilings(buffer, context.agreement());
    List<Result> results = new ArrayList<>();
    double combineBytes = traffic.mean() * settings.options().returnedBytes(settings.hidden());
    double readMicros = ceilings.readMicros((long) combineBytes);
    for (Payload payload : settings.payloads()) {
      String name = BenchSettings.word(payload);
      context.at("timing low latency, " + name);
      LowLatencyDispatchOptions options = dispatchOptions(payload);
      double dispatchBytes = traffic.mean() * payload.dispatchBytes(settings.hidden());
      double copyMicros = copyMicros(ceilings, payload, (long) dispatchBytes);
      results.add(
          result(
              "ll_dispatch", name, set -> timeDispatch(set, options), dispatchBytes, copyMicros));
      if (payload == settings.payload()) {
        results.add(
            result(
                "ll_combine",
                settings.options().returnedWord(),
                set -> timeCombine(set, options),
                combineBytes,
                readMicros));
      }
      results.add(
          result(
              "ll_pair",
              name,
              set -> timePair(set, options),
              dispatchBytes + combineBytes,
              Double.NaN));
    }
    return results;
  }

  private double copyMicros(Ceilings ceilings, Payload payload, long bytes) {
    InputSet first = sets.getFirst();
    RowCopies copies = RowCopies.of(first.world(), rank, layout);
    long rowBytes = payload.rows().bytes(settings.hidden());
    return ceilings.copyMicros(first.tokens().x().segment(), rowBytes, copies, bytes);
  }

  private long timeDispatch(InputSet set, LowLatencyDispatchOptions options) {
    long start = System.nanoTime();
    LowLatencyDispatch dispatch = dispatch(set, options);
    long nanos = System.nanoTime() - start;
    combine(set, dispatch.handle());
    return nanos;
  }

  private long timeCombine(InputSet set, LowLatencyDispatchOptions options) {
    LowLatencyDispatch dispatch = dispatch(set, options);
    buffer.barrier();
    long start = System.nanoTime();
    combine(set, dispatch.handle());
    return System.nanoTime() - start;
  }

  private long timePair(InputSet set, LowLatencyDispatchOptions options) {
    long start = System.nanoTime();
    combine(set, dispatch(set, options).handle());
    return System.nanoTime() - start;
  }

  private void run(Timed timed, int first, int count) {
    nanos = new long[count];
    for (int i = 0; i < count; i++) {
      InputSet set = sets.get((first + i) % sets.size());
      buffer.barrier();
      nanos[i] = timed.run(set);
    }
  }

  /** Times an operation. */
  private Result result(
      String operation, String dtype, Timed timed, double bytes, double ceilingMicros) {
    WarmUp warm =
        settings
            .plan()
            .spend(BUDGET, context.agreement(), (first, count) -> run(timed, first, count));
    Timings timings = Timings.longestOf(context.agreement().numbers(nanos));
    double share = traffic.mean() == 0 ? 0 : traffic.meanRemote() / traffic.mean();
    return new Result(
            operation, dtype, timings, traffic.mean(), bytes, bytes * share, ceilingMicros)
        .after(warm);
  }

  @Override
  public void close() {
    buffer.close();
    expertMemory.close();
    arena.close();
  }
}
