package org.ep4j.engine.host.buffer;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DType;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.ErrorCode;
import org.ep4j.Execution;
import org.ep4j.IllegalUseException;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Limits;
import org.ep4j.engine.ResultLifetime;
import org.ep4j.engine.host.combine.Combiner;
import org.ep4j.engine.host.combine.HostCombine;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HandlePool;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.dispatch.Dispatcher;
import org.ep4j.engine.host.dispatch.HostDispatch;
import org.ep4j.engine.host.dispatch.HostDispatchLayout;
import org.ep4j.engine.host.dispatch.RoutingScan;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * The high-throughput operations of one buffer on one rank: checks the arguments, then runs the
 * operation on the calling thread or queues it. Used by one thread at a time.
 *
 * <p>The operation itself checks the ids of a routing, because a previous event may have to write
 * them first. An asynchronous dispatch therefore reports a bad id through its event.
 */
final class HighThroughput {
  /**
   * Result objects of each kind, used in turn: a result is outdated for at least three operations.
   */
  private static final int RESULTS = 4;

  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ScratchLayout scratch;
  private final Staging staging;
  private final OperationQueue queue;
  private final HandlePool pool;
  private final RoutingScan routes;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final TrafficCounters traffic = new TrafficCounters();
  private final ResultLifetime dispatchLifetime = new ResultLifetime("dispatch");
  private final ResultLifetime combineLifetime = new ResultLifetime("combine");
  private final HostDispatch[] flatResults = new HostDispatch[RESULTS];
  private final HostDispatch[] groupedResults = new HostDispatch[RESULTS];
  private final HostCombine[] combineResults = new HostCombine[RESULTS];
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
    int hidden = context.config.hidden();
    staging = new Staging(own.address(), memory.region().address(), memory.region().byteSize());
    pool = new HandlePool(context.placement.localExperts(context.rank), context.ranks);
    routes = new RoutingScan(table, context.nodes, context.config.topK());
    for (int i = 0; i < RESULTS; i++) {
      flatResults[i] = new HostDispatch.Flat(dispatchLifetime, hidden, layout, part, scratch, own);
      groupedResults[i] =
          new HostDispatch.Grouped(dispatchLifetime, hidden, layout, part, scratch, own);
      combineResults[i] = new HostCombine(combineLifetime, scratch, own);
    }
    layoutResult = new HostDispatchLayout(scratch, own, context);
    dispatcher = new Dispatcher(context, layout, scratch, table, staging, team, pool, traffic);
    combiner = new Combiner(context, layout, scratch, staging, team, traffic);
  }

  /** Sets the connection to other nodes. */
  void connect(ScaleOut connection) {
    dispatcher.connect(connection);
    combiner.connect(connection);
  }

  TrafficCounters traffic() {
    return traffic;
  }

  DispatchLayout layout(Routing routing) {
    checkRouting(routing);
    queue.drain();
    int tokens = routing.tokens();
    Tensor ids = routing.topkIdx();
    long tokenInRank = staging.at(scratch.tokenInRank);
    NativeMemory.fill(tokenInRank, (long) tokens * context.ranks, (byte) 0);
    routes.count(
        tokens,
        routing.topK(),
        staging.stable(ids, scratch.ids),
        ids.dtype() == DType.INT64,
        tokenInRank);
    for (int r = 0; r < context.ranks; r++) {
      NativeMemory.putInt(staging.at(scratch.perRank) + 4L * r, routes.perRank[r]);
    }
    for (int e = 0; e < context.placement.experts(); e++) {
      NativeMemory.putInt(staging.at(scratch.perExpert) + 4L * e, routes.perExpert(e));
    }
    for (int n = 0; n < routes.perNode.length; n++) {
      NativeMemory.putInt(staging.at(scratch.perNode) + 4L * n, routes.perNode[n]);
    }
    layoutResult.delivered(tokens);
    return layoutResult;
  }

  HostDispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    Arguments.highThroughputLayout(layout);
    checkTokens(tokens);
    checkRouting(routing);
    Arguments.sameTokens(tokens, routing);
    Arguments.options(context.config, layout, options, this.layout.capacity);
    Execution execution = options.execution();
    Arguments.noStream(execution.stream());
    if (execution.isAsync()) {
      context.requireUsable();
      HostDispatch result = nextDispatch(layout);
      result.await(
          queue.submit(
              () -> {
                queue.awaitPrevious(execution.previousEvent(), "dispatch");
                dispatcher.dispatch(layout, tokens, routing, options, result);
              }));
      return result;
    }
    queue.drain();
    queue.awaitPrevious(execution.previousEvent(), "dispatch");
    HostDispatch result = nextDispatch(layout);
    dispatcher.dispatch(layout, tokens, routing, options, result);
    return result;
  }

  HostDispatch dispatch(Layout layout, Tokens tokens, DispatchHandle handle, Execution execution) {
    checkTokens(tokens);
    Arguments.noStream(execution.stream());
    HostHandle hostHandle = use(handle);
    boolean queued = false;
    try {
      Arguments.sameLayout(layout, hostHandle);
      Arguments.sameTokens(tokens, hostHandle);
      if (execution.isAsync()) {
        HostDispatch result = nextDispatch(layout);
        result.await(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), "cached dispatch");
                    dispatcher.dispatch(tokens, hostHandle, result);
                  } finally {
                    hostHandle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), "cached dispatch");
      HostDispatch result = nextDispatch(layout);
      dispatcher.dispatch(tokens, hostHandle, result);
      return result;
    } finally {
      if (!queued) {
        hostHandle.release();
      }
    }
  }

  Combine combine(Tensor y, DispatchHandle handle, CombineOptions options) {
    HostHandle hostHandle = use(handle);
    boolean queued = false;
    try {
      checkCombine(y, hostHandle, options);
      Execution execution = options.execution();
      if (execution.isAsync()) {
        HostCombine result = nextCombine();
        result.await(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), "combine");
                    dispatcher.requireRowsOf(hostHandle, y);
                    combiner.combine(y, hostHandle, options, result);
                  } finally {
                    hostHandle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), "combine");
      dispatcher.requireRowsOf(hostHandle, y);
      HostCombine result = nextCombine();
      combiner.combine(y, hostHandle, options, result);
      return result;
    } finally {
      if (!queued) {
        hostHandle.release();
      }
    }
  }

  /** Outdates all results: a reset discards the memory that they show. */
  void outdateResults() {
    dispatchLifetime.next();
    combineLifetime.next();
  }

  private HostDispatch nextDispatch(Layout layout) {
    long number = dispatchLifetime.next();
    HostDispatch[] results = layout == Layout.FLAT ? flatResults : groupedResults;
    HostDispatch result = results[(int) (number % RESULTS)];
    result.begin(number);
    return result;
  }

  private HostCombine nextCombine() {
    long number = combineLifetime.next();
    HostCombine result = combineResults[(int) (number % RESULTS)];
    result.begin(number);
    return result;
  }

  /** Checks that the handle belongs to this buffer and is valid, and holds it until release. */
  private HostHandle use(DispatchHandle handle) {
    Arguments.highThroughput(context.config);
    context.requireUsable();
    if (!(handle instanceof HostHandle hostHandle) || !hostHandle.isOf(pool)) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_OF_OTHER_BUFFER,
          "the dispatch handle belongs to another buffer: use it with the buffer that made"
              + " it");
    }
    hostHandle.acquire();
    if (hostHandle.generation != context.generation) {
      hostHandle.release();
      throw new IllegalUseException(
          ErrorCode.HANDLE_STALE,
          "the dispatch handle is older than the last reset(), which discarded its rows:"
              + " dispatch again");
    }
    return hostHandle;
  }

  private void checkTokens(Tokens tokens) {
    Arguments.highThroughput(context.config);
    Arguments.tokens(context.config, tokens, layout.maxScaleBytes);
    Arguments.onHost("x", tokens.x());
    onHost("scales", tokens.scales());
    onHost("globalScales", tokens.globalScales());
  }

  private void checkRouting(Routing routing) {
    Arguments.highThroughput(context.config);
    Arguments.routing(
        context.config, routing, Limits.tokens(context.config), Limits.HIGH_THROUGHPUT_TOKENS);
    Arguments.onHost("topkIdx", routing.topkIdx());
    onHost("topkWeights", routing.topkWeights());
  }

  private void checkCombine(Tensor y, HostHandle hostHandle, CombineOptions options) {
    Arguments.noStream(options.execution().stream());
    Arguments.combine(context.config, y, hostHandle, options, hostHandle.rows(), true);
    Arguments.applyWeights(options, hostHandle, hostHandle.weighted);
    Arguments.onHost("y", y);
    onHost("topkWeights", options.topkWeights());
    onHost("bias0", options.bias0());
    onHost("bias1", options.bias1());
    Tensor out = options.out();
    if (out != null) {
      Arguments.writableOnHost("out", out);
    }
  }

  private static void onHost(String name, @Nullable Tensor tensor) {
    if (tensor != null) {
      Arguments.onHost(name, tensor);
    }
  }
}
