package org.ep4j.conformance.round;

import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;

/**
 * The shape of a random buffer: mostly small, sometimes unusual.
 *
 * @param ranks number of ranks
 * @param hidden elements of a row
 * @param topK maximum choices per token
 * @param placement experts and their ranks
 * @param maxTokens maximum tokens per rank, high throughput; 0 = not used
 * @param lowLatencyMaxTokens the same for low latency
 * @param expertAlignment largest alignment
 * @param rowDType widest row
 * @param layouts of high-throughput dispatches
 * @param combineInPlace whether experts write their rows over the received ones
 * @param ranksPerNode ranks that share memory; 0 = all
 * @param lanes lanes of a wire between nodes; 0 = as many as the wire chooses
 */
public record Shape(
    int ranks,
    int hidden,
    int topK,
    ExpertPlacement placement,
    int maxTokens,
    int lowLatencyMaxTokens,
    int expertAlignment,
    DType rowDType,
    List<Layout> layouts,
    boolean combineInPlace,
    int ranksPerNode,
    int lanes) {
  private static final List<List<Layout>> LAYOUTS =
      List.of(
          List.of(Layout.FLAT, Layout.EXPERT_MAJOR),
          List.of(Layout.FLAT),
          List.of(Layout.EXPERT_MAJOR));
  private static final int[] LANES = {0, 1, 3, 8};

  private static final int[] ALIGNMENTS = {1, 2, 3, 8, 16, 64};
  private static final int[] LOW_LATENCY_BLOCKS = {1, 2, 3, 4, 8, 12};
  private static final DType[] ROWS = {DType.BF16, DType.BF16, DType.FP32, DType.FP16};

  /**
   * Draws a shape.
   *
   * @param latency whether the buffer may have low-latency operations
   * @param throughput whether the buffer may have high-throughput operations; at least one of the
   *     two
   * @param wire kind of wire between nodes; empty: all ranks are in one node
   */
  public static Shape draw(
      int ranks, boolean latency, boolean throughput, String wire, SplittableRandom random) {
    // 0: high throughput, 1: low latency, else both
    int kind = !throughput ? 1 : latency ? random.nextInt(4) : 0;
    boolean lowLatency = kind != 0;
    int hidden =
        lowLatency
            ? 128 * LOW_LATENCY_BLOCKS[random.nextInt(LOW_LATENCY_BLOCKS.length)]
            : random.nextBoolean() ? 8 * random.nextInt(1, 40) : 32 * random.nextInt(1, 12);
    int experts =
        switch (random.nextInt(8)) {
          case 0 -> random.nextInt(1, ranks + 2); // ranks without experts
          case 1 -> random.nextInt(64, 200);
          default -> random.nextInt(2, 33);
        };
    int max = Math.min(experts, BufferConfig.MAX_TOP_K);
    int topK = random.nextInt(8) == 0 ? max : random.nextInt(1, Math.min(8, max) + 1);
    return new Shape(
        ranks,
        hidden,
        topK,
        placement(experts, ranks, random),
        kind == 1 ? 0 : random.nextInt(10) == 0 ? random.nextInt(1, 160) : random.nextInt(1, 40),
        lowLatency ? random.nextInt(1, 24) : 0,
        ALIGNMENTS[random.nextInt(ALIGNMENTS.length)],
        ROWS[random.nextInt(ROWS.length)],
        LAYOUTS.get(random.nextInt(LAYOUTS.size())),
        random.nextBoolean(),
        wire.isEmpty() ? 0 : random.nextInt(1, ranks + 1),
        wire.isEmpty() ? 0 : LANES[random.nextInt(LANES.length)]);
  }

  private static ExpertPlacement placement(int experts, int ranks, SplittableRandom random) {
    if (random.nextInt(3) != 0) {
      return ExpertPlacement.blocks(experts, ranks);
    }
    int[] rankOf = new int[experts];
    int favourite = random.nextInt(ranks);
    for (int e = 0; e < experts; e++) {
      rankOf[e] = random.nextInt(3) == 0 ? favourite : random.nextInt(ranks);
    }
    return ExpertPlacement.table(rankOf, ranks);
  }

  /** Whether a combine of rows elsewhere, or of wider ones, is refused. */
  boolean combinesInPlaceOnly() {
    return combineInPlace
        && (layouts.equals(List.of(Layout.FLAT))
            || (layouts.equals(List.of(Layout.EXPERT_MAJOR)) && topK <= ranks));
  }

  public BufferConfig config(String engine, String wire) {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .hidden(hidden)
            .topK(topK)
            .placement(placement)
            .timeout(Duration.ofSeconds(Integer.getInteger("ep4j.patience", 60)))
            .engine(engine)
            .ranksPerNode(ranksPerNode)
            .wire(wire.isEmpty() ? WireName.AUTO : wire);
    if (lanes > 0 && engine.equals(EngineName.HOST)) {
      // On GPUs the number must suit EP4J_PROXY_THREADS.
      config.wireOptions(WireOptions.builder().lanes(lanes).build());
    }
    if (maxTokens > 0) {
      config.highThroughput(
          HighThroughputConfig.builder()
              .maxTokens(maxTokens)
              .rowDType(rowDType)
              .expertAlignment(expertAlignment)
              .layouts(layouts.toArray(Layout[]::new))
              .combineInPlace(combineInPlace)
              .build());
    }
    if (lowLatencyMaxTokens > 0) {
      config.lowLatency(lowLatencyMaxTokens);
    }
    return config.build();
  }
}
