package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.ExpertBuffer;
import org.ep4j.cli.text.Units;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.routing.ExpertPlacement;

/**
 * Low latency while a rank is missing: the last rank skips three operations, each other rank masks
 * it when the first wait for it has ended, and all ranks admit it again. The oracle checks every
 * byte of every operation.
 */
final class ShrinkTest implements AutoCloseable {
  /** How long ranks wait for the missing one. */
  private static final Duration TIMEOUT = Duration.ofSeconds(3);

  /** Checks of {@link LowLatencyRound#run}, in which every rank takes part. */
  private static final int CHECKS = 2;

  private static final int ROUNDS_WITHOUT = 3;
  private static final int ROUNDS_AFTER = 2;

  private final RankContext context;
  private final BenchSettings settings;
  private final int rank;
  private final int silent;
  private final ExpertPlacement placement;
  private final ExpertBuffer buffer;
  private final ExpertRows expertRows;
  private int cases;
  private long maskedAfterNanos;

  ShrinkTest(RankContext context) {
    this.context = context;
    settings = context.settings();
    rank = context.group().rank();
    int ranks = context.group().size();
    silent = ranks - 1;
    placement = ExpertPlacement.blocks(settings.experts(), ranks);
    context.at("opening the buffer");
    BufferConfig config =
        settings.lowLatencyConfig(ranks).toBuilder()
            .lowLatency(
                LowLatencyConfig.builder().maxTokens(settings.maxTokens()).masking(true).build())
            .build();
    // Compiles kernels that the cache lacks, which may take longer than the limit of the rounds.
    ExpertBuffer.open(context.group(), config).close();
    buffer = ExpertBuffer.open(context.group(), config.toBuilder().timeout(TIMEOUT).build());
    expertRows = ExpertRows.of(settings, placement, rank);
  }

  /** The context, with the nodes of the buffer. */
  RankContext context() {
    return context.across(buffer);
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
    return context.style().bold("Shrink test")
        + "  %s engine, %d ranks, low latency with masking, a timeout of %d s%n"
            .formatted(engine(), context.group().size(), TIMEOUT.toSeconds())
        + "             rank %d skips %d of %d rounds; %d tokens a rank, hidden %d, top-%d of %d experts%n"
            .formatted(
                silent,
                ROUNDS_WITHOUT,
                1 + ROUNDS_WITHOUT + ROUNDS_AFTER,
                settings.lowLatencyTokens(),
                settings.hidden(),
                settings.topk(),
                settings.experts());
  }

  /** Runs the rounds; collective. */
  void run() {
    boolean[] all = new boolean[context.group().size()];
    boolean[] shrunk = all.clone();
    shrunk[silent] = true;
    round(all);
    for (int i = 0; i < ROUNDS_WITHOUT; i++) {
      long start = System.nanoTime();
      round(shrunk);
      if (i == 0) {
        maskedAfterNanos = context.agreement().max(System.nanoTime() - start);
      }
    }
    context.agreement().barrier();
    buffer.cleanMask();
    context.agreement().barrier();
    for (int i = 0; i < ROUNDS_AFTER; i++) {
      round(all);
    }
  }

  /** One round of the ranks that are not masked; the others only wait for its end. */
  private void round(boolean[] masked) {
    context.at("round %d of the shrink test".formatted(cases + 1));
    if (masked[rank]) {
      for (int i = 0; i < CHECKS; i++) {
        context.verify(() -> {});
      }
    } else {
      try (Arena arena = Arena.ofShared()) {
        InputSet input =
            InputSet.make(
                settings, Payload.BF16, settings.lowLatencyTokens(), cases, rank, placement, arena);
        LowLatencyRound.of(
                context,
                buffer,
                settings.payload(),
                LowLatencyRound.combining(settings).build(),
                expertRows.tensor())
            .run(input, masked, true, _ -> {});
      }
    }
    cases++;
  }

  /** What has been tested. */
  String report() {
    return "rank %d was masked after %s and is back; every round equals the oracle bit for bit"
        .formatted(silent, Units.micros(maskedAfterNanos / 1e3));
  }

  /** The fields for the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("op", "shrink");
    tree.put("silent_rank", silent);
    tree.put("masked_after_us", maskedAfterNanos / 1e3);
    tree.put("rounds", cases);
    return tree;
  }

  @Override
  public void close() {
    buffer.close();
    expertRows.close();
  }
}
