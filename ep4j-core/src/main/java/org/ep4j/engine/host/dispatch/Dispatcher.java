package org.ep4j.engine.host.dispatch;

import org.ep4j.DType;
import org.ep4j.DispatchOptions;
import org.ep4j.Layout;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.Routing;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.Operation;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Payload;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.exec.HostEnd;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.HandlePool;
import org.jspecify.annotations.Nullable;

/**
 * High-throughput dispatch, step by step: read and check the routing, publish counts, enter,
 * compute slots from the counts of all ranks, push rows to their slots, finish. The caller has
 * checked the arguments against the configuration; one thread at a time.
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

  /** Null unless the buffer is in debug mode. */
  private final @Nullable DeliveredRows received;

  /** The internode part; null if there is one node. */
  private @Nullable DispatchExchange exchange;

  public Dispatcher(
      HostContext context,
      HighThroughputLayout layout,
      ScratchLayout scratch,
      ExpertTable table,
      Staging staging,
      WorkerTeam team,
      HandlePool<HostHandle> pool,
      CallExperts experts,
      HostDelivery delivery,
      TrafficCounters traffic) {
    this.context = context;
    this.layout = layout;
    this.scratch = scratch;
    this.staging = staging;
    this.team = team;
    this.pool = pool;
    this.experts = experts;
    this.delivery = delivery;
    this.traffic = traffic;
    this.table = table;
    routes = new RoutingScan(table, context.nodes, context.config.topK());
    slots = new SlotAssignment(context, layout, table);
    push = new RowPush(context, layout, table, payload);
    long part = context.highThroughput(context.rank);
    empty = new EmptySlots(layout, part);
    received = context.debug ? new DeliveredRows(layout, part) : null;
  }

  /** Sets the connection to other nodes. */
  public void connect(ScaleOut connection) {
    exchange = new DispatchExchange(context, connection, layout, table, team, payload, push);
  }

  /** A dispatch that computes new routes. */
  public void dispatch(
      Layout layout,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      DispatchResult<HostEnd> result) {
    context.requireUsable();
    HostHandle handle = pool.take();
    pool.dispatched(handle);
    boolean done = false;
    try {
      findRoutes(handle, layout, tokens, routing, options);
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

  /** A dispatch along the routes of {@code handle}. */
  public void dispatch(Tokens tokens, HostHandle handle, DispatchResult<HostEnd> result) {
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

  private void findRoutes(
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
    } else {
      routes.expertMajor(handle, payload.ids, payload.wideIds);
      if (handle.weighted) {
        handle.keepWeights(payload.weights);
      }
    }
  }

  private void send(HostHandle handle, String name, DispatchResult<HostEnd> result) {
    if (exchange == null) {
      push.push(handle, team);
    } else {
      exchange.run(handle, name);
    }
    empty.fill(handle, payload);
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

  /** Debug mode: overwrites the results of the last dispatch, before any peer sends rows. */
  private void outdate() {
    if (received != null) {
      received.outdate();
    }
  }

  /** Debug mode: refuses received rows of another dispatch than that of {@code handle}. */
  public void requireRowsOf(HostHandle handle, Tensor y) {
    if (received != null) {
      received.requireOf(handle, y);
    }
  }
}
