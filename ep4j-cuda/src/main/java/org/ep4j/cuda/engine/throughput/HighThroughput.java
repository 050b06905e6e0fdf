package org.ep4j.cuda.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.DebugMode;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.throughput.LentResult;
import org.ep4j.engine.throughput.LentResult.CombineResult;
import org.ep4j.engine.throughput.Results;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The high-throughput operations of one buffer on one rank: checks, enqueues, and waits as the
 * caller requests. Used by one thread at a time.
 */
public final class HighThroughput {
  /** Names of operations in messages. */
  private static final String DISPATCH = "dispatch";

  private static final String CACHED = "cached dispatch";
  private static final String COMBINE = "combine";

  private final CudaContext context;
  private final CudaHandles handles;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final LentResult.Lifetime dispatchLifetime = new LentResult.Lifetime("dispatch");
  private final LentResult.Lifetime combineLifetime = new LentResult.Lifetime("combine");
  private final Results<DispatchResult<OperationEnd>> flatResults;
  private final Results<DispatchResult<OperationEnd>> groupedResults;
  private final Results<CombineResult<OperationEnd>> combineResults;

  private final boolean debug = DebugMode.isOn();

  /** Debug mode: the handle of the dispatch whose rows are in the receive region. */
  private @Nullable CudaHandle received;

  /** Debug mode: whether a graph may have written the receive region since. */
  private boolean replayed;

  private final Operation operation = new Operation();

  /** Number of enqueued operations. */
  public long dispatches;

  public long combines;

  public HighThroughput(CudaContext context, CudaHandles handles) {
    this.context = context;
    this.handles = handles;
    dispatcher = new Dispatcher(context);
    combiner = new Combiner(context);
    flatResults = dispatchResults(Layout.FLAT);
    groupedResults = dispatchResults(Layout.EXPERT_MAJOR);
    combineResults =
        new Results<>(
            combineLifetime,
            () -> new CombineResult<>(combineLifetime, new OperationEnd(context.completion)));
  }

  /** Of the combines, those whose rows lay where the ranks of the node read them. */
  public long combinesInPlace() {
    return combiner.inPlaceCombines;
  }

  private Results<DispatchResult<OperationEnd>> dispatchResults(Layout layout) {
    CudaDelivery delivery = new CudaDelivery(context);
    DispatchResult.Sizes sizes =
        DispatchResult.Sizes.of(context.config, context.rank, context.layout.capacity);
    return new Results<>(
        dispatchLifetime,
        () ->
            DispatchResult.of(
                layout, sizes, delivery, dispatchLifetime, new OperationEnd(context.completion)));
  }

  /** Outdates all results: a reset discards the memory that they show. */
  public void outdateResults() {
    dispatchLifetime.next();
    combineLifetime.next();
  }

  /** The result of an enqueued dispatch; {@code ticket} is 0 if it has ended. */
  private Dispatch result(
      CudaHandle handle,
      Tokens tokens,
      boolean cached,
      long ticket,
      boolean callersStream,
      boolean captured) {
    if (captured) {
      // The graph has the handle.
      handle.handOut();
    }
    DispatchResult<OperationEnd> result =
        (handle.layout == Layout.FLAT ? flatResults : groupedResults).next(captured);
    handles.pool().dispatched(handle);
    result.describe(tokens, cached);
    boolean refusable = !cached && !handle.staticSizing;
    result.end.enqueued(
        cached ? CACHED : DISPATCH, 0, ticket, callersStream, refusable ? handle : null);
    result.deliver(handle);
    received = handle;
    replayed |= captured;
    return result;
  }

  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    Execution execution = options.execution();
    CudaStream stream = context.stream(execution.stream());
    boolean capturing = execution.stream() != null && stream.capturing();
    HighThroughputChecks.dispatch(
        context.config,
        layout,
        tokens,
        routing,
        options,
        context.experts,
        context.layout.maxScaleBytes,
        context.layout.capacity,
        context.staging.accepted(capturing));
    boolean exact = !options.sizing().isStatic();
    if (capturing && exact) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_CAPTURE_EXACT,
          "sizing",
          "EXACT",
          "Sizing.atMost while a graph is captured, because a replay cannot report counts to the"
              + " host",
          "use Sizing.atMost");
    }
    context.completion.requireUsable();
    context.order(stream, capturing, execution.previousEvent());
    CudaHandle handle = handles.take();
    boolean done = false;
    try {
      handle.generation = context.generation;
      handle.captured = capturing;
      dispatcher.dispatch(layout, tokens, routing, options, handle, stream);
      dispatches++;
      handle.call = context.calls.add(handle.describe(operation, tokens));
      long end = finish(handle.ticket, DISPATCH, execution);
      if (exact && (end == 0 || execution.stream() != null)) {
        handle.awaitCounts();
        handle.require(handle.ticket);
      }
      done = true;
      return result(handle, tokens, false, end, execution.stream() != null, capturing);
    } finally {
      if (!done) {
        // The caller never gets this handle, so it is closed here.
        handle.close();
      }
    }
  }

  public Dispatch dispatch(
      Layout layout, Tokens tokens, DispatchHandle given, Execution execution) {
    CudaStream stream = context.stream(execution.stream());
    boolean capturing = execution.stream() != null && stream.capturing();
    HighThroughputChecks.tokens(
        context.config, tokens, context.layout.maxScaleBytes, context.staging.accepted(capturing));
    CudaHandle handle = use(given);
    HighThroughputChecks.cached(layout, tokens, handle);
    context.order(stream, capturing, execution.previousEvent());
    long ticket = dispatcher.dispatchAgain(tokens, handle, stream, capturing);
    dispatches++;
    context.calls.add(handle.describeCached(operation, tokens, handle.call));
    long end = finish(ticket, CACHED, execution);
    return result(handle, tokens, true, end, execution.stream() != null, capturing);
  }

  public Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
    Execution execution = options.execution();
    CudaStream stream = context.stream(execution.stream());
    boolean capturing = execution.stream() != null && stream.capturing();
    CudaHandle handle = use(given);
    HighThroughputChecks.combine(
        context.config,
        y,
        handle,
        options,
        handle.limit,
        capturing,
        context.staging.accepted(capturing));
    HighThroughputChecks.combineInPlace(context.config, y, combiner.isReadable(y));
    if (options.order() == CombineOrder.EXPERT) {
      requireByExperts(y);
    }
    if (debug) {
      requireRowsOf(handle, y);
    }
    context.order(stream, capturing, execution.previousEvent());
    Tensor wanted = options.out();
    boolean toHost = wanted != null && !wanted.onDevice();
    Tensor out =
        wanted == null || toHost ? combiner.ownSums(y.dtype(), handle.tokens, y.size(1)) : wanted;
    Tensor outWeights =
        options.topkWeights() == null ? null : combiner.ownWeights(handle.tokens, handle.topK);
    long ticket = combiner.combine(y, handle, options, out, outWeights, stream, capturing);
    combines++;
    operation
        .begin(OperationLayout.COMBINE)
        .set(OperationLayout.DTYPE, y.dtype().ordinal())
        .set(OperationLayout.WEIGHTS, options.topkWeights() != null)
        .set(OperationLayout.PARTIAL_ROUNDING, options.partialRounding())
        .set(OperationLayout.APPLY_WEIGHTS, options.applyWeights())
        .set(OperationLayout.ORDER, options.order().ordinal())
        .set(OperationLayout.HANDLE, handle.call)
        .set(OperationLayout.HIDDEN, y.size(1));
    context.calls.add(operation);
    long end = finish(ticket, COMBINE, toHost ? Execution.SYNCHRONOUS : execution);
    if (wanted != null && toHost && wanted.byteSize() > 0) {
      DeviceCopies.toHost(context.device, wanted.segment(), out.address());
    }
    CombineResult<OperationEnd> result = combineResults.next(capturing);
    result.end.enqueued(COMBINE, 0, end, execution.stream() != null, null);
    result.deliver(wanted == null ? out : wanted, outWeights);
    return result;
  }

  /** Requires that this GPU can sum rows in the order of experts, which it pulls from its peers. */
  private void requireByExperts(Tensor y) {
    if (!context.device.properties().hasBulkCopies()) {
      throw Arguments.invalid(
          ErrorCode.CUDA_COMBINE_ORDER,
          "order",
          CombineOrder.EXPERT,
          "RANK on GPUs before sm_90",
          "leave the order out, or open the buffer with engine(\"host\")");
    }
    // Between nodes all ranks must know from their configuration that rows are read.
    boolean declared = context.kernels.combinesByExperts();
    if (!declared || (y.byteSize() > 0 && !combiner.isReadable(y))) {
      throw Arguments.invalid(
          ErrorCode.CUDA_ORDERED_ROWS,
          "y",
          y,
          "in the received rows of this buffer, from which peers read them",
          "open the buffer with combineInPlace and write results into combineInput");
    }
  }

  /** Requires that rows in the receive region are those of the handle's dispatch. */
  private void requireRowsOf(CudaHandle handle, Tensor y) {
    long region = context.region.address();
    RegionLayout.Arrays arrays = context.layout.received;
    boolean inRegion =
        y.onDevice() && y.address() >= region + arrays.rows && y.address() < region + arrays.scales;
    CudaHandle last = received;
    if (inRegion && !replayed && last != null && last != handle) {
      throw DebugMode.rowsOfOtherHandle(y, "dispatch " + last.call, "dispatch " + handle.call);
    }
  }

  /** Waits for the end unless the caller waits itself; returns what is left to wait for, or 0. */
  private long finish(long ticket, String operation, Execution execution) {
    if (execution.stream() != null || execution.isAsync()) {
      return ticket;
    }
    context.completion.await(ticket, operation);
    return 0;
  }

  private CudaHandle use(DispatchHandle given) {
    HighThroughputChecks.highThroughput(context.config);
    context.completion.requireUsable();
    return handles.pool().require(given, context.generation);
  }
}
