package org.ep4j.cuda.soak;

import java.time.Duration;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;

/**
 * The shape of a soak.
 *
 * @param ranks a divisor of {@link #EXPERTS}, at most 4
 * @param hidden a multiple of 512
 * @param maxTokens largest number of tokens of a rank, in both kinds of operations
 */
record SoakShape(int ranks, int hidden, int maxTokens) {
  static final int EXPERTS = 24;
  static final int TOP_K = 6;
  static final int ALIGNMENT = 16;
  private static final Duration TIMEOUT = Duration.ofSeconds(20);

  int localExperts() {
    return EXPERTS / ranks;
  }

  int pairs() {
    return ranks * maxTokens;
  }

  /**
   * Largest number of rows that a dispatch delivers to a rank: one row per choice, aligned groups.
   */
  long maxRows(int tokensOfAll, int alignment) {
    return (long) tokensOfAll * Math.min(TOP_K, localExperts()) + (alignment - 1L) * localExperts();
  }

  /** Rows of the largest tensor of any operation. */
  long capacity() {
    return Math.max(maxRows(pairs(), ALIGNMENT), (long) localExperts() * pairs());
  }

  BufferConfig config(String engine, int highThroughputTokens, int lowLatencyTokens) {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .engine(engine)
            .hidden(hidden)
            .topK(TOP_K)
            .experts(EXPERTS)
            .timeout(TIMEOUT);
    if (highThroughputTokens > 0) {
      config.highThroughput(
          HighThroughputConfig.builder()
              .maxTokens(highThroughputTokens)
              .expertAlignment(ALIGNMENT)
              .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
              .build());
    }
    if (lowLatencyTokens > 0) {
      config.lowLatency(lowLatencyTokens);
    }
    return config.build();
  }
}
