package org.ep4j.engine.host.buffer;

import java.lang.foreign.MemorySegment;
import org.ep4j.DispatchLayout;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.host.combine.Combiner;
import org.ep4j.engine.host.context.DeliveredRows;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostCallMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.dispatch.Dispatcher;
import org.ep4j.engine.host.dispatch.HostDelivery;
import org.ep4j.engine.host.dispatch.HostDispatchLayout;
import org.ep4j.engine.host.dispatch.RoutingScan;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;

/**
 * What serves the high-throughput operations of one buffer on one rank; also counts the rows of a
 * routing. Used by one thread at a time.
 */
final class HighThroughput {
  final Dispatcher dispatcher;
  final Combiner combiner;
  final TrafficCounters traffic = new TrafficCounters();

  private final HostContext context;
  private final ScratchLayout scratch;
  private final Staging staging;
  private final OperationQueue queue;
  private final CallExperts experts;

  /** Ids of the routing of a layout. */
  private final Payload counted = new Payload();

  private final RoutingScan routes;
  private final HostDispatchLayout layoutResult;

  HighThroughput(
      HostContext context,
      RegionLayout region,
      ExpertTable table,
      HostMemory memory,
      WorkerTeam team,
      OperationQueue queue) {
    this.context = context;
    this.scratch = region.scratch;
    this.queue = queue;
    HighThroughputLayout layout = region.highThroughput;
    MemorySegment part = memory.region().asSlice(context.highThroughputOffset, layout.bytes);
    MemorySegment own = memory.scratch();
    staging = new Staging(own.address(), memory.region().address(), memory.region().byteSize());
    HandlePool<HostHandle> pool =
        HostHandle.pool(context.placement.localExperts(context.rank), context.ranks);
    experts = new CallExperts(context.config, context.rank);
    routes = new RoutingScan(table, context.nodes, context.config.topK());
    HostDelivery delivery = new HostDelivery(context, layout, part, scratch, own);
    DeliveredRows received =
        context.debug ? new DeliveredRows(layout, context.highThroughput(context.rank)) : null;
    layoutResult = new HostDispatchLayout(scratch, own, context);
    dispatcher =
        new Dispatcher(
            context, region, table, staging, team, queue, pool, experts, delivery, received,
            traffic);
    combiner =
        new Combiner(
            context, region, staging, team, queue, pool, received, traffic, new SegmentMemory(own));
  }

  /** Sets the connection to other nodes. */
  void connect(ScaleOut connection) {
    dispatcher.connect(connection);
    combiner.connect(connection);
  }

  /** Outdates all results: a reset discards the memory that they show. */
  void outdateResults() {
    dispatcher.outdateResults();
    combiner.outdateResults();
  }

  DispatchLayout layout(Routing routing, int wantedExperts) {
    HighThroughputChecks.routing(context.config, routing, HostCallMemory.ANY);
    int all = experts.number(wantedExperts);
    queue.drain();
    int tokens = routing.tokens();
    counted.load(routing, staging, scratch);
    int[] ofBuffer = experts.ofBuffer(all);
    if (ofBuffer != null) {
      counted.translate(ofBuffer, tokens, routing.topK(), staging.at(scratch.ids));
    }
    long tokenInRank = staging.at(scratch.tokenInRank);
    NativeMemory.fill(tokenInRank, (long) tokens * context.ranks, (byte) 0);
    routes.count(tokens, routing.topK(), counted.ids, counted.wideIds, tokenInRank);
    for (int r = 0; r < context.ranks; r++) {
      NativeMemory.putInt(staging.at(scratch.perRank) + 4L * r, routes.perRank[r]);
    }
    for (int e = 0; e < all; e++) {
      int rows = routes.perExpert(ofBuffer == null ? e : ofBuffer[e]);
      NativeMemory.putInt(staging.at(scratch.perExpert) + 4L * e, rows);
    }
    for (int n = 0; n < routes.perNode.length; n++) {
      NativeMemory.putInt(staging.at(scratch.perNode) + 4L * n, routes.perNode[n]);
    }
    layoutResult.delivered(tokens, all);
    return layoutResult;
  }
}
