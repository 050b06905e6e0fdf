package org.ep4j.engine.host.buffer;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.InternodeLowLatencyLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.host.lowlatency.LowLatency;
import org.ep4j.group.Group;

/**
 * Connects a rank with ranks of other nodes, if there are any: when its buffer is opened, and at
 * each reset.
 */
final class Connector implements AutoCloseable {
  private final HostContext context;
  private final HighThroughput highThroughput;
  private final LowLatency lowLatency;
  private final ScaleOut.Plan plan;

  /**
   * @param region this rank's region
   */
  Connector(
      HostContext context,
      RegionLayout layout,
      MemorySegment region,
      HighThroughput highThroughput,
      LowLatency lowLatency) {
    this.context = context;
    this.lowLatency = lowLatency;
    this.highThroughput = highThroughput;
    ScaleOutLayout chunks = HostSizes.chunks(context.config, layout, context.ranks);
    boolean latency = context.config.lowLatency().isPresent();
    plan =
        new ScaleOut.Plan(
            chunks,
            region.asSlice(0, layout.headBytes()),
            latency ? layout.lowLatency : null,
            latency
                ? new InternodeLowLatencyLayout(
                    context.config,
                    layout.lowLatency,
                    context.placement.localExperts(context.rank),
                    chunks.firstInternode())
                : null);
  }

  private boolean oneNode() {
    return context.nodes.count() == 1;
  }

  /** Connects all ranks of the buffer; collective. */
  void connect() {
    if (!oneNode()) {
      int[] numbers = new int[context.ranks];
      for (int r = 0; r < numbers.length; r++) {
        numbers[r] = r;
      }
      connect(context.group, false, numbers);
    }
  }

  /**
   * Connects the live ranks again; collective among them. Transfers that were in flight between
   * them are lost.
   *
   * @param live their group
   * @param numbers their ranks in the buffer
   * @return whether the connection keeps the group and closes it later
   */
  boolean reconnect(Group live, int[] numbers) {
    if (oneNode()) {
      return false;
    }
    close();
    connect(live, true, numbers);
    return true;
  }

  private void connect(Group live, boolean owned, int[] numbers) {
    ScaleOut connection =
        ScaleOut.open(live, owned, numbers, context.excluded, context.config, context.nodes, plan);
    context.connect(connection);
    highThroughput.connect(connection);
    lowLatency.connect(connection.internodeLowLatency());
  }

  @Override
  public void close() {
    ScaleOut connection = context.scaleOut();
    if (connection != null) {
      connection.close();
    }
  }
}
