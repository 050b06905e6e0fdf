package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.bench.Ceilings;
import org.ep4j.bench.RowCopies;
import org.ep4j.bench.Timings;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

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
  private final ExpertRows expertRows;
  private final Map<Payload, LowLatencyRound> rounds = new EnumMap<>(Payload.class);
  private long[] nanos = {};

  LowLatencyBench(RankContext context) {
    context.at("opening the low-latency buffer");
    this.rank = context.group().rank();
    int ranks = context.group().size();
    buffer = ExpertBuffer.open(context.group(), context.settings().lowLatencyConfig(ranks));
    this.context = context.across(buffer);
    this.settings = this.context.settings();
    int tokens = settings.lowLatencyTokens();
    int hidden = settings.hidden();
    ExpertPlacement placement = ExpertPlacement.blocks(settings.experts(), ranks);
    for (int b = 0; b < settings.plan().buffers(); b++) {
      sets.add(InputSet.make(settings, Payload.BF16, tokens, b, rank, placement, arena));
    }
    layout = settings.options().rankMajor() ? Layout.FLAT : Layout.EXPERT_MAJOR;
    traffic = TrafficVolume.of(sets.stream().map(InputSet::world).toList(), layout, 1);
    expertRows = ExpertRows.of(settings, placement, rank);
    Tensor out =
        Tensor.of(
            arena.allocate(Math.max(1, (long) tokens * hidden * BF16_BYTES), 64),
            DType.BF16,
            tokens,
            hidden);
    LowLatencyCombineOptions combining = LowLatencyRound.combining(settings).out(out).build();
    for (Payload payload : settings.payloads()) {
      rounds.put(
          payload, LowLatencyRound.of(context, buffer, payload, combining, expertRows.tensor()));
    }
  }

  /** The context, with the nodes of the buffer. */
  RankContext context() {
    return context;
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
    for (LowLatencyRound round : rounds.values()) {
      for (int i = 0; i < CHECKED_WARMUPS; i++) {
        round.verify(sets.getFirst());
      }
      run(set -> timePair(set, round), 0, WARMUPS);
    }
    new Ceilings(buffer, context.agreement()).warmUp();
  }

  /** Checks every format; returns a report. */
  String verify() {
    long start = System.nanoTime();
    context.at("verifying low latency");
    rounds.values().forEach(round -> round.verify(sets.getFirst()));
    return context.verified(start);
  }

  /** Checks every format with the last input set; returns a report. */
  String verifyAgain() {
    long start = System.nanoTime();
    context.at("verifying low latency again");
    rounds.values().forEach(round -> round.verify(sets.getLast()));
    return context.verified(start);
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
      LowLatencyRound round = Objects.requireNonNull(rounds.get(payload));
      double dispatchBytes = traffic.mean() * payload.dispatchBytes(settings.hidden());
      double copyMicros = copyMicros(ceilings, payload, (long) dispatchBytes);
      results.add(
          result("ll_dispatch", name, set -> timeDispatch(set, round), dispatchBytes, copyMicros));
      if (payload == settings.payload()) {
        results.add(
            result(
                "ll_combine",
                settings.options().returnedWord(),
                set -> timeCombine(set, round),
                combineBytes,
                readMicros));
      }
      results.add(
          result(
              "ll_pair",
              name,
              set -> timePair(set, round),
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

  private static long timeDispatch(InputSet set, LowLatencyRound round) {
    long start = System.nanoTime();
    LowLatencyDispatch dispatch = round.dispatch(set);
    long nanos = System.nanoTime() - start;
    round.combine(set, dispatch.handle());
    return nanos;
  }

  private long timeCombine(InputSet set, LowLatencyRound round) {
    LowLatencyDispatch dispatch = round.dispatch(set);
    buffer.barrier();
    long start = System.nanoTime();
    round.combine(set, dispatch.handle());
    return System.nanoTime() - start;
  }

  private static long timePair(InputSet set, LowLatencyRound round) {
    long start = System.nanoTime();
    round.combine(set, round.dispatch(set).handle());
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
            .spend(
                BUDGET,
                context.agreement(),
                (first, count) -> run(timed, first, count),
                (first, count) ->
                    context
                        .trace()
                        .timed(operation + " " + dtype, count, () -> run(timed, first, count)));
    Timings timings = Timings.longestOf(context.agreement().numbers(nanos));
    double share = traffic.mean() == 0 ? 0 : traffic.meanRemote() / traffic.mean();
    return new Result(
            operation, dtype, timings, traffic.mean(), bytes, bytes * share, ceilingMicros)
        .after(warm);
  }

  @Override
  public void close() {
    buffer.close();
    expertRows.close();
    arena.close();
  }
}
