package org.ep4j.engine.host.buffer;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.Execution;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.host.combine.Combiner;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostCallMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Payload;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.dispatch.Dispatcher;
import org.ep4j.engine.host.dispatch.HostDelivery;
import org.ep4j.engine.host.dispatch.HostDispatchLayout;
import org.ep4j.engine.host.dispatch.RoutingScan;
import org.ep4j.engine.host.exec.HostEnd;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.engine.throughput.CombineResult;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.throughput.LentResult;
import org.ep4j.engine.throughput.Results;
import org.ep4j.memory.NativeMemory;

/**
 * The high-throughput operations of one buffer on one rank: checks the arguments, then runs the
 * operation on the calling thread or queues it. Used by one thread at a time.
 *
 * <p>The operation itself checks the ids of a routing, because a previous event may have to write
 * them first. An asynchronous dispatch therefore reports a bad id through its event.
 */
final class HighThroughput {
  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ScratchLayout scratch;
  private final Staging staging;
  private final OperationQueue queue;
  private final HandlePool<HostHandle> pool;
  private final CallExperts experts;

  /** Ids of the routing of a layout. */
  private final Payload counted = new Payload();

  private final RoutingScan routes;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final TrafficCounters traffic = new TrafficCounters();
  private final LentResult.Lifetime dispatchLifetime = new LentResult.Lifetime("dispatch");
  private final LentResult.Lifetime combineLifetime = new LentResult.Lifetime("combine");
  private final Results<DispatchResult<HostEnd>> flatResults;
  private final Results<DispatchResult<HostEnd>> groupedResults;
  private final Results<CombineResult<HostEnd>> combineResults;
  private final HostDispatchLayout layoutResult;

  HighThroughput(
      HostContext context,
      RegionLayout region,
      ExpertTable table,
      HostMemory memory,
      WorkerTeam team,
      OperationQueue queue) {
    this.context = context;
    this.layout = region.highThroughput;
    this.scratch = region.scratch;
    this.queue = queue;
    MemorySegment part = memory.region().asSlice(context.highThroughputOffset, layout.bytes);
    MemorySegment own = memory.scratch();
    staging = new Staging(own.address(), memory.region().address(), memory.region().byteSize());
    pool = HostHandle.pool(context.placement.localExperts(context.rank), context.ranks);
    experts = new CallExperts(context.config, context.rank);
    routes = new RoutingScan(table, context.nodes, context.config.topK());
    HostDelivery delivery = new HostDelivery(context, layout, part, scratch, own);
    DispatchResult.Sizes sizes =
        DispatchResult.Sizes.of(context.config, context.rank, layout.capacity);
    flatResults = dispatchResults(Layout.FLAT, sizes, delivery);
    groupedResults = dispatchResults(Layout.EXPERT_MAJOR, sizes, delivery);
    combineResults =
        new Results<>(combineLifetime, () -> new CombineResult<>(combineLifetime, new HostEnd()));
    layoutResult = new HostDispatchLayout(scratch, own, context);
    dispatcher =
        new Dispatcher(
            context, layout, scratch, table, staging, team, pool, experts, delivery, traffic);
    combiner =
        new Combiner(context, layout, scratch, staging, team, traffic, new SegmentMemory(own));
  }

  private Results<DispatchResult<HostEnd>> dispatchResults(
      Layout rowOrder, DispatchResult.Sizes sizes, HostDelivery delivery) {
    return new Results<>(
        dispatchLifetime,
        () -> DispatchResult.of(rowOrder, sizes, delivery, dispatchLifetime, new HostEnd()));
  }

  /** Sets the connection to other nodes. */
  void connect(ScaleOut connection) {
    dispatcher.connect(connection);
    combiner.connect(connection);
  }

  TrafficCounters traffic() {
    return traffic;
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

  Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    Execution execution = options.execution();
    Arguments.noStream(execution.stream());
    HighThroughputChecks.dispatch(
        context.config,
        layout,
        tokens,
        routing,
        options,
        experts,
        this.layout.maxScaleBytes,
        this.layout.capacity,
        HostCallMemory.ANY);
    if (execution.isAsync()) {
      context.requireUsable();
      DispatchResult<HostEnd> result = nextDispatch(layout, tokens, false);
      result.end.queued(
          queue.submit(
              () -> {
                queue.awaitPrevious(execution.previousEvent(), "dispatch");
                dispatcher.dispatch(layout, tokens, routing, options, result);
              }));
      return result;
    }
    queue.drain();
    queue.awaitPrevious(execution.previousEvent(), "dispatch");
    DispatchResult<HostEnd> result = nextDispatch(layout, tokens, false);
    dispatcher.dispatch(layout, tokens, routing, options, result);
    return result;
  }

  Dispatch dispatch(Layout layout, Tokens tokens, DispatchHandle given, Execution execution) {
    Arguments.noStream(execution.stream());
    HighThroughputChecks.tokens(
        context.config, tokens, this.layout.maxScaleBytes, HostCallMemory.ANY);
    HostHandle handle = use(given);
    boolean queued = false;
    try {
      HighThroughputChecks.cached(layout, tokens, handle);
      if (execution.isAsync()) {
        DispatchResult<HostEnd> result = nextDispatch(layout, tokens, true);
        result.end.queued(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), "cached dispatch");
                    dispatcher.dispatch(tokens, handle, result);
                  } finally {
                    handle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), "cached dispatch");
      DispatchResult<HostEnd> result = nextDispatch(layout, tokens, true);
      dispatcher.dispatch(tokens, handle, result);
      return result;
    } finally {
      if (!queued) {
        handle.release();
      }
    }
  }

  Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
    Execution execution = options.execution();
    Arguments.noStream(execution.stream());
    HostHandle handle = use(given);
    boolean queued = false;
    try {
      HighThroughputChecks.combine(
          context.config, y, handle, options, handle.rows(), true, HostCallMemory.ANY);
      Arguments.combineInPlace(context.config, y, staging.inRegion(y));
      if (execution.isAsync()) {
        CombineResult<HostEnd> result = nextCombine();
        result.end.queued(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), "combine");
                    dispatcher.requireRowsOf(handle, y);
                    combiner.combine(y, handle, options, result);
                  } finally {
                    handle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), "combine");
      dispatcher.requireRowsOf(handle, y);
      CombineResult<HostEnd> result = nextCombine();
      combiner.combine(y, handle, options, result);
      return result;
    } finally {
      if (!queued) {
        handle.release();
      }
    }
  }

  /** Outdates all results: a reset discards the memory that they show. */
  void outdateResults() {
    dispatchLifetime.next();
    combineLifetime.next();
  }

  private DispatchResult<HostEnd> nextDispatch(Layout layout, Tokens tokens, boolean cached) {
    DispatchResult<HostEnd> result =
        (layout == Layout.FLAT ? flatResults : groupedResults).next(false);
    result.describe(tokens, cached);
    result.end.none();
    return result;
  }

  private CombineResult<HostEnd> nextCombine() {
    CombineResult<HostEnd> result = combineResults.next(false);
    result.end.none();
    return result;
  }

  /** The handle that a caller passes, held until its release. */
  private HostHandle use(DispatchHandle given) {
    Arguments.highThroughput(context.config);
    context.requireUsable();
    HostHandle handle = pool.require(given, context.generation);
    handle.acquire();
    return handle;
  }
}
