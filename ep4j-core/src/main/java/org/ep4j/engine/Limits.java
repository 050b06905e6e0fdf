package org.ep4j.engine;

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
   * FLAT. Rows elsewhere are refused then, so no rank reserves memory for them.
   */
  public static boolean combinesInPlaceOnly(BufferConfig config) {
    return config.highThroughput().isPresent()
        && config.highThroughput().get().combineInPlace()
        && layouts(config).equals(Set.of(Layout.FLAT));
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
