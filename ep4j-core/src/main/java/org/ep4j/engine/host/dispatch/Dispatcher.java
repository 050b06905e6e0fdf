package org.ep4j.engine.host.dispatch;

import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.Operation;
import org.ep4j.engine.host.context.DeliveredRows;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostCallMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.exec.HostEnd;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.throughput.LentResult;
import org.ep4j.engine.throughput.Results;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * High-throughput dispatch, step by step: check the arguments, then on the calling thread or in the
 * queue read and check the routing, publish counts, enter, compute slots from the counts of all
 * ranks, push rows to their slots, finish. Used by one thread at a time.
 *
 * <p>The operation itself checks the ids of a routing, because a previous event may have to write
 * them first. An asynchronous dispatch therefore reports a bad id through its event.
 */
public final class Dispatcher {
  private static final String DISPATCH = "dispatch";
  private static final String CACHED = "cached dispatch";

  /** Phase name of the wait in finish. */
  private static final String ROWS = "rows";

  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ScratchLayout scratch;
  private final Staging staging;
  private final WorkerTeam team;
  private final OperationQueue queue;
  private final HandlePool<HostHandle> pool;
  private final CallExperts experts;
  private final HostDelivery delivery;
  private final RoutingScan routes;
  private final SlotAssignment slots;
  private final Payload payload = new Payload();
  private final RowPush push;
  private final EmptySlots empty;
  private final ScaleTranspose scaleTranspose = new ScaleTranspose();
  private final Operation operation = new Operation();
  private final TrafficCounters traffic;
  private final ExpertTable table;

  private final LentResult.Lifetime lifetime = new LentResult.Lifetime("dispatch");
  private final Results<DispatchResult<HostEnd>> flatResults;
  private final Results<DispatchResult<HostEnd>> groupedResults;

  /** Null unless the buffer is in debug mode. */
  private final @Nullable DeliveredRows received;

  /** The internode part; null if there is one node. */
  private @Nullable DispatchExchange exchange;

  public Dispatcher(
      HostContext context,
      RegionLayout region,
      ExpertTable table,
      Staging staging,
      WorkerTeam team,
      OperationQueue queue,
      HandlePool<HostHandle> pool,
      CallExperts experts,
      HostDelivery delivery,
      @Nullable DeliveredRows received,
      TrafficCounters traffic) {
    this.context = context;
    layout = region.highThroughput;
    scratch = region.scratch;
    this.staging = staging;
    this.team = team;
    this.queue = queue;
    this.pool = pool;
    this.experts = experts;
    this.delivery = delivery;
    this.received = received;
    this.traffic = traffic;
    this.table = table;
    routes = new RoutingScan(table, context.nodes, context.config.topK());
    slots = new SlotAssignment(context, layout, table);
    push = new RowPush(context, layout, table, payload);
    empty = new EmptySlots(layout, context.highThroughput(context.rank));
    DispatchResult.Sizes sizes =
        DispatchResult.Sizes.of(context.config, context.rank, layout.capacity);
    flatResults = results(Layout.FLAT, sizes);
    groupedResults = results(Layout.EXPERT_MAJOR, sizes);
  }

  private Results<DispatchResult<HostEnd>> results(Layout rowOrder, DispatchResult.Sizes sizes) {
    return new Results<>(
        lifetime, () -> DispatchResult.of(rowOrder, sizes, delivery, lifetime, new HostEnd()));
  }

  /** Sets the connection to other nodes. */
  public void connect(ScaleOut connection) {
    exchange = new DispatchExchange(context, connection, team, payload, push);
  }

  /** Outdates all results: a reset discards the memory that they show. */
  public void outdateResults() {
    lifetime.next();
  }

  /** A dispatch that computes new routes. */
  public Dispatch dispatch(
      Layout rowOrder, Tokens tokens, Routing routing, DispatchOptions options) {
    Execution execution = options.execution();
    Arguments.noStream(execution.stream());
    HighThroughputChecks.dispatch(
        context.config,
        rowOrder,
        tokens,
        routing,
        options,
        experts,
        layout.maxScaleBytes,
        layout.capacity,
        HostCallMemory.ANY);
    if (execution.isAsync()) {
      context.requireUsable();
      DispatchResult<HostEnd> result = next(rowOrder, tokens, false);
      result.end.queued(
          queue.submit(
              () -> {
                queue.awaitPrevious(execution.previousEvent(), DISPATCH);
                run(rowOrder, tokens, routing, options, result);
              }));
      return result;
    }
    queue.drain();
    queue.awaitPrevious(execution.previousEvent(), DISPATCH);
    DispatchResult<HostEnd> result = next(rowOrder, tokens, false);
    run(rowOrder, tokens, routing, options, result);
    return result;
  }

  /** A dispatch along the routes of a handle. */
  public Dispatch dispatch(
      Layout rowOrder, Tokens tokens, DispatchHandle given, Execution execution) {
    Arguments.noStream(execution.stream());
    HighThroughputChecks.tokens(context.config, tokens, layout.maxScaleBytes, HostCallMemory.ANY);
    HostHandle handle = HostHandle.use(pool, given, context);
    boolean queued = false;
    try {
      HighThroughputChecks.cached(rowOrder, tokens, handle);
      if (execution.isAsync()) {
        DispatchResult<HostEnd> result = next(rowOrder, tokens, true);
        result.end.queued(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), CACHED);
                    run(tokens, handle, result);
                  } finally {
                    handle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), CACHED);
      DispatchResult<HostEnd> result = next(rowOrder, tokens, true);
      run(tokens, handle, result);
      return result;
    } finally {
      if (!queued) {
        handle.release();
      }
    }
  }

  private DispatchResult<HostEnd> next(Layout rowOrder, Tokens tokens, boolean cached) {
    DispatchResult<HostEnd> result =
        (rowOrder == Layout.FLAT ? flatResults : groupedResults).next(false);
    result.describe(tokens, cached);
    result.end.none();
    return result;
  }

  private void run(
      Layout rowOrder,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      DispatchResult<HostEnd> result) {
    context.requireUsable();
    HostHandle handle = pool.take();
    pool.dispatched(handle);
    boolean done = false;
    try {
      boolean sorts = findRoutes(handle, rowOrder, tokens, routing, options);
      handle.describe(operation, tokens);
      slots.publish(routes, handle.limit);
      outdate();
      context.enter(operation, DISPATCH);
      handle.epoch = context.epoch;
      handle.generation = context.generation;
      slots.compute(handle);
      ReceiveOverflowException overflow = handle.staticSizing ? null : slots.overflow();
      if (overflow != null) {
        // All ranks take this branch: they leave together, and no rank has sent rows.
        context.finish(DISPATCH, "refusal");
        throw overflow;
      }
      slots.resolve(handle, routes.positions);
      if (rowOrder == Layout.EXPERT_MAJOR) {
        prepareSums(handle, sorts);
      }
      handle.sortOut(context.nodes, context.rank);
      send(handle, DISPATCH, result);
      done = true;
    } catch (InternalError e) {
      throw context.settle(HostContext.outOfPages(DISPATCH, e));
    } catch (RuntimeException e) {
      throw context.settle(e);
    } finally {
      context.settle();
      if (!done) {
        handle.close();
      }
    }
  }

  private void run(Tokens tokens, HostHandle handle, DispatchResult<HostEnd> result) {
    context.requireUsable();
    pool.dispatched(handle);
    try {
      load(tokens);
      payload.clearRouting();
      handle.describeCached(operation, tokens, handle.epoch);
      outdate();
      context.enter(operation, CACHED);
      send(handle, CACHED, result);
    } catch (InternalError e) {
      throw context.settle(HostContext.outOfPages(CACHED, e));
    } catch (RuntimeException e) {
      throw context.settle(e);
    } finally {
      context.settle();
    }
  }

  private void load(Tokens tokens) {
    payload.load(tokens, staging, scratch);
    Tensor scales = tokens.scales();
    if (scales != null && tokens.scaleLayout() == ScaleLayout.COLUMN_MAJOR) {
      scaleTranspose.toRows(scales, payload.scales, tokens.tokens(), team);
    }
  }

  /** Finds the routes; whether the kept experts order the sums along them. */
  private boolean findRoutes(
      HostHandle handle, Layout rowOrder, Tokens tokens, Routing routing, DispatchOptions options) {
    load(tokens);
    payload.load(routing, staging, scratch);
    handle.describe(rowOrder, routing, options, experts, layout.capacity);
    int[] ofBuffer = experts.ofBuffer(handle.experts);
    if (ofBuffer != null) {
      payload.translate(ofBuffer, handle.tokens, handle.topK, staging.at(scratch.ids));
    }
    if (handle.layout == Layout.FLAT) {
      routes.flat(handle, payload.ids, payload.wideIds);
      return false;
    }
    routes.expertMajor(handle, payload.ids, payload.wideIds);
    Tensor logical = routing.logicalIdx();
    boolean sorts = logical != null || (ofBuffer == null && !table.inOrder);
    if (sorts) {
      handle.keepExperts(logical != null ? logical : routing.topkIdx());
    }
    return sorts;
  }

  /** Keeps what combines need of the routing, once the routes are those of the rows that fit. */
  private void prepareSums(HostHandle handle, boolean sorts) {
    if (handle.weighted) {
      handle.keepWeights(payload.weights);
    }
    handle.order = null;
    if (sorts) {
      handle.sortByExperts();
    }
  }

  private void send(HostHandle handle, String name, DispatchResult<HostEnd> result) {
    if (exchange == null) {
      push.push(handle, team);
    } else {
      exchange.run(handle, name);
    }
    empty.fill(handle, payload);
    observe(handle);
    context.finish(name, ROWS);
    DType scales = payload.scaleDtype;
    if (handle.scaleLayout == ScaleLayout.COLUMN_MAJOR && scales != null) {
      scaleTranspose.toColumns(
          context.highThroughput(context.rank) + layout.scales,
          staging.at(scratch.scaleColumns),
          scales,
          handle.rows(),
          handle.staticSizing ? handle.limit : handle.rows(),
          payload.scalesPerRow,
          team);
    }
    delivery.deliver(handle);
    result.deliver(handle);
    if (received != null) {
      received.delivered(handle, payload);
    }
    traffic.dispatched(handle, payload);
  }

  private void observe(HostHandle handle) {
    context.log.received(
        Math.min(handle.receivedRows, handle.limit), payload.rowBytes + payload.scaleBytes);
    if (handle.experts == context.config.experts()) {
      for (int local = 0; local < handle.received.length; local++) {
        context.log.expert(local, handle.received[local]);
      }
    }
  }

  /** Debug mode: overwrites the results of the last dispatch, before any peer sends rows. */
  private void outdate() {
    if (received != null) {
      received.outdate();
    }
  }
}
