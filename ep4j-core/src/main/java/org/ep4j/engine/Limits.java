package org.ep4j.engine;

import org.ep4j.BufferConfig;
import org.ep4j.DType;

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

  /** Tokens of a rank in low-latency operations; 0 without these operations. */
  public static int lowLatencyTokens(BufferConfig config) {
    return config.lowLatency().isPresent() ? config.lowLatency().get().maxTokens() : 0;
  }

  /** Whether low-latency operations mask ranks that miss the deadline. */
  public static boolean masking(BufferConfig config) {
    return config.lowLatency().isPresent() && config.lowLatency().get().masking();
  }
}
