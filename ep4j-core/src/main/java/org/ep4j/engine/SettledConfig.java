package org.ep4j.engine;

import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.engine.world.Nodes;

/** The configuration that an open buffer returns: it holds what the engine chose. */
public final class SettledConfig {
  private SettledConfig() {}

  /**
   * Fills in what every engine knows of an open buffer. The wire and the backend are those of
   * {@code config}.
   *
   * @param parallelism threads or SMs of an operation
   */
  public static BufferConfig of(BufferConfig config, String engine, Nodes nodes, int parallelism) {
    BufferConfig.Builder settled =
        config.toBuilder()
            .engine(engine)
            .ranksPerNode(nodes.ranksPerNode())
            .parallelism(parallelism);
    if (config.highThroughput().isPresent()) {
      HighThroughputConfig part = config.highThroughput().get();
      settled.highThroughput(part.toBuilder().maxReceiveRows(ReceiveCapacity.rows(config)).build());
    }
    return settled.build();
  }
}
