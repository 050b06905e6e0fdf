package org.ep4j.engine;

import java.util.Objects;
import java.util.Set;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.tensor.DType;

/**
 * Limits of a configuration for code that serves buffers with and without a kind of operation: the
 * limit of an absent kind is 0. Allocates nothing.
 */
public final class Limits {
  /** Names of the fields in messages. */
  public static final String HIGH_THROUGHPUT_TOKENS = "highThroughput.maxTokens";

  public static final String LOW_LATENCY_TOKENS = "lowLatency.maxTokens";

  public static final String LOST_RANKS = "highThroughput.lostRanks";

  private Limits() {}

  /** Tokens of a rank in one high-throughput dispatch; 0 without these operations. */
  public static int tokens(BufferConfig config) {
    return config.highThroughput().isPresent() ? config.highThroughput().get().maxTokens() : 0;
  }

  /** Widest row type of high-throughput operations; BF16 without them. */
  public static DType rowDType(BufferConfig config) {
    return config.highThroughput().isPresent()
        ? config.highThroughput().get().rowDType()
        : DType.BF16;
  }

  /** Layouts of high-throughput dispatches; none without these operations. */
  public static Set<Layout> layouts(BufferConfig config) {
    return config.highThroughput().isPresent() ? config.highThroughput().get().layouts() : Set.of();
  }

  /**
   * Whether every combine reads rows where they were received: experts write over them, and all are
   * FLAT, or all are EXPERT_MAJOR and a rank holds few rows of a token. Rows elsewhere are refused
   * then, so no rank reserves memory for them.
   */
  public static boolean combinesInPlaceOnly(BufferConfig config) {
    if (config.highThroughput().isEmpty() || !config.highThroughput().get().combineInPlace()) {
      return false;
    }
    Set<Layout> layouts = layouts(config);
    return layouts.equals(Set.of(Layout.FLAT))
        || (layouts.equals(Set.of(Layout.EXPERT_MAJOR)) && holdFewRows(config));
  }

  /**
   * Whether experts may write EXPERT_MAJOR rows over the received ones, where other ranks can read
   * them.
   */
  public static boolean writesExpertRowsInPlace(BufferConfig config) {
    return config.highThroughput().isPresent()
        && config.highThroughput().get().combineInPlace()
        && layouts(config).contains(Layout.EXPERT_MAJOR);
  }

  /**
   * Whether a rank holds one or two of the EXPERT_MAJOR rows of a token on average: then reading
   * all of them costs GPUs less, with few SMs, than a sum of each rank, which travels.
   */
  private static boolean holdFewRows(BufferConfig config) {
    return config.topK() <= Objects.requireNonNull(config.placement(), "settled placement").ranks();
  }

  /** Ranks of a node whose loss high throughput has memory for; 0 without these operations. */
  public static int lostRanks(BufferConfig config) {
    return config.highThroughput().isPresent() ? config.highThroughput().get().lostRanks() : 0;
  }

  /** Tokens of a rank in low-latency operations; 0 without these operations. */
  public static int lowLatencyTokens(BufferConfig config) {
    return config.lowLatency().isPresent() ? config.lowLatency().get().maxTokens() : 0;
  }

  /** Whether low-latency operations mask ranks that miss the deadline. */
  public static boolean masking(BufferConfig config) {
    return config.lowLatency().isPresent() && config.lowLatency().get().masking();
  }
}
