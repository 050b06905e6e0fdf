package org.ep4j.engine.host;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.Arguments;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/** Connects a rank with those of other nodes: when its buffer is opened, and at each reset. */
final class Connector implements AutoCloseable {
  private final HostContext context;
  private final HighThroughput highThroughput;
  private final ScaleOut.Plan plan;

  private Connector(
      HostContext context,
      RegionLayout layout,
      MemorySegment region,
      HighThroughput highThroughput) {
    if (context.config.lowLatencyMaxTokens() > 0) {
      throw Arguments.invalid(
          "lowLatencyMaxTokens",
          context.config.lowLatencyMaxTokens(),
          "0 where ranks run on several nodes",
          "use the high-throughput operations there");
    }
    this.context = context;
    this.highThroughput = highThroughput;
    int topK = context.config.topK();
    long token =
        Math.max(
            DispatchChunk.most(layout.highThroughput, topK),
            CombineChunk.most(context.config.hidden(), topK));
    plan =
        new ScaleOut.Plan(
            ScaleOut.layout(context.ranks, token), region.asSlice(0, layout.headBytes()));
  }

  /**
   * Connects all ranks of a buffer; collective. Null if they share one node.
   *
   * @param region this rank's region
   */
  static @Nullable Connector open(
      HostContext context,
      RegionLayout layout,
      MemorySegment region,
      HighThroughput highThroughput) {
    if (context.nodes.count() == 1) {
      return null;
    }
    Connector connector = new Connector(context, layout, region, highThroughput);
    int[] numbers = new int[context.ranks];
    for (int r = 0; r < numbers.length; r++) {
      numbers[r] = r;
    }
    connector.connect(context.group, false, numbers);
    return connector;
  }

  /**
   * Connects the ranks that are left anew, and keeps their group until the next time; collective
   * among them. What was under way between them is of no use any more.
   *
   * @param numbers their numbers in the buffer
   */
  void reconnect(Group live, int[] numbers) {
    close();
    connect(live, true, numbers);
  }

  private void connect(Group live, boolean owned, int[] numbers) {
    ScaleOut connection =
        ScaleOut.open(live, owned, numbers, context.excluded, context.config, context.nodes, plan);
    context.connect(connection);
    highThroughput.connect(connection);
  }

  @Override
  public void close() {
    ScaleOut connection = context.scaleOut();
    if (connection != null) {
      connection.close();
    }
  }
}
