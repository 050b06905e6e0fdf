package org.ep4j.cuda.soak;

import org.ep4j.config.BufferConfig;

/** Operations of a soak. */
enum SoakKind {
  HIGH_THROUGHPUT,
  LOW_LATENCY,
  /** Both on one buffer, in an order drawn from the seed. */
  BOTH;

  /** The buffer configuration of the kind. */
  BufferConfig config(SoakShape shape, String engine) {
    return shape.config(
        engine,
        this == LOW_LATENCY ? 0 : shape.maxTokens(),
        this == HIGH_THROUGHPUT ? 0 : shape.maxTokens());
  }

  /** The epochs of a rank. */
  SoakEpochs of(SoakRank rank) {
    SoakEpochs highThroughput = new HighThroughputSoak(rank);
    SoakEpochs lowLatency = new LowLatencySoak(rank);
    return switch (this) {
      case HIGH_THROUGHPUT -> highThroughput;
      case LOW_LATENCY -> lowLatency;
      case BOTH -> () -> (rank.shared().split().nextBoolean() ? highThroughput : lowLatency).next();
    };
  }
}
