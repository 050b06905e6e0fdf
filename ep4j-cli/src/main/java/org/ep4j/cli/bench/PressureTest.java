package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.ep4j.CombineOptions;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.bench.TrafficVolume;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.config.Layout;
import org.ep4j.memory.PageArena;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Random cases on one buffer for a given time. The oracle checks the first round of a case; the
 * rounds after it follow each other without a pause, and their results must have the same hash.
 * Where both kinds of operation are tested, they take turns.
 */
final class PressureTest implements AutoCloseable {
  private static final int GROUP_ALIGNMENT = 128;

  /** Rounds of a case after the checked one. */
  private static final int REPEATS = 8;

  private final RankContext context;
  private final BenchSettings settings;
  private final int rank;
  private final ExpertPlacement placement;
  private final ExpertBuffer buffer;
  private final @Nullable ExpertRows expertRows;
  private int cases;
  private long rounds;

  PressureTest(RankContext context) {
    rank = context.group().rank();
    int ranks = context.group().size();
    context.at("opening the buffer");
    buffer = ExpertBuffer.open(context.group(), context.settings().pressureConfig(ranks));
    this.context =
        context.settings().highThroughput()
            ? context.acrossEqualNodes(buffer)
            : context.across(buffer);
    settings = this.context.settings();
    placement = ExpertPlacement.blocks(settings.experts(), ranks);
    expertRows = settings.lowLatency() ? ExpertRows.of(settings, placement, rank) : null;
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

  /** The first lines of the report. */
  String head() {
    String kinds =
        switch (settings.kind()) {
          case HT -> "high throughput";
          case LL -> "low latency";
          case ALL -> "high throughput and low latency in turn";
        };
    int max = settings.highThroughput() ? settings.tokens() : settings.lowLatencyTokens();
    return context.style().bold("Pressure test")
        + "  %s engine, %d ranks, one buffer, %s%n"
            .formatted(engine(), context.group().size(), kinds)
        + "               0 to %d tokens a rank, hidden %d, top-%d of %d experts, %s routing, seed %d%n"
            .formatted(
                max,
                settings.hidden(),
                settings.topk(),
                settings.experts(),
                BenchSettings.word(settings.routing()),
                settings.seed());
  }

  /** Runs cases until the time has passed, at least one of each kind and format; collective. */
  void run(int seconds) {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    int least = settings.payloads().size();
    while (cases < least || context.agreement().max(end - System.nanoTime()) > 0) {
      context.at("case %d of the pressure test".formatted(cases + 1));
      Payload payload = settings.payloads().get(cases % least);
      if (settings.highThroughput()) {
        highThroughput(payload);
      }
      if (expertRows != null) {
        lowLatency(payload, expertRows.tensor());
      }
      cases++;
    }
  }

  private void highThroughput(Payload payload) {
    boolean grouped = settings.layout() == Layout.EXPERT_MAJOR;
    int alignment = grouped ? GROUP_ALIGNMENT : 1;
    try (Arena arena = new PageArena()) {
      InputSet input = input(payload, settings.tokens(), arena);
      long max =
          Math.max(1, TrafficVolume.of(List.of(input.world()), settings.layout(), alignment).max());
      DispatchOptions dispatching =
          DispatchOptions.builder()
              .expertAlignment(alignment)
              .zeroPadding(grouped)
              .sizing(settings.staticSizes() ? Sizing.atMost(max) : Sizing.EXACT)
              .build();
      CombineOptions combining =
          CombineOptions.builder()
              .applyWeights(settings.applyWeights())
              .order(settings.order())
              .build();
      HighThroughputRound round =
          new HighThroughputRound(context, buffer, payload, dispatching, combining);
      repeat("high throughput", (checked, results) -> round.run(input, checked, results));
    }
  }

  private void lowLatency(Payload payload, Tensor rows) {
    try (Arena arena = Arena.ofShared()) {
      InputSet input = input(Payload.BF16, settings.lowLatencyTokens(), arena);
      LowLatencyRound round =
          LowLatencyRound.of(
              context, buffer, payload, LowLatencyRound.combining(settings).build(), rows);
      repeat("low latency", (checked, results) -> round.run(input, checked, results));
    }
  }

  /** The input of a case: every rank draws how many tokens it has; in the first case, all. */
  private InputSet input(Payload payload, int max, Arena arena) {
    return InputSet.make(
        settings,
        payload,
        source -> {
          SplittableRandom random =
              new SplittableRandom(settings.seed() + ((long) cases << 32) + source);
          return cases == 0 ? max : random.nextInt(max + 1);
        },
        cases,
        rank,
        placement,
        arena);
  }

  /** A round of a case. */
  @FunctionalInterface
  private interface Round {
    /** Runs the round; see {@link HighThroughputRound#run}. */
    void run(boolean checked, Consumer<Tensor> results);
  }

  private void repeat(String kind, Round round) {
    ResultHash expected = new ResultHash();
    round.run(true, expected::add);
    int wrong = 0;
    for (int i = 1; i <= REPEATS; i++) {
      ResultHash actual = new ResultHash();
      round.run(false, actual::add);
      if (wrong == 0 && actual.value() != expected.value()) {
        wrong = i;
      }
    }
    List<String> mismatches =
        context
            .agreement()
            .texts(
                wrong == 0
                    ? ""
                    : "%s, case %d of seed %d on rank %d: round %d has another result than the round that the oracle has checked"
                        .formatted(kind, cases + 1, settings.seed(), rank, wrong));
    if (!mismatches.isEmpty()) {
      throw new VerificationFailure(mismatches.getFirst());
    }
    rounds += 1 + REPEATS;
  }

  /** What has been tested. */
  String report() {
    return "%d rounds of %d cases on %d ranks: first rounds equal the oracle, others their hashes"
        .formatted(rounds, cases, context.group().size());
  }

  /** The fields for the artifact. */
  Map<String, Object> tree(int seconds) {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("op", "pressure");
    tree.put("seconds", seconds);
    tree.put("cases", cases);
    tree.put("rounds", rounds);
    return tree;
  }

  @Override
  public void close() {
    buffer.close();
    if (expertRows != null) {
      expertRows.close();
    }
  }
}
