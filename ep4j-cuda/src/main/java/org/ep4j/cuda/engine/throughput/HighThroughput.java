package org.ep4j.cuda.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ErrorCode;
import org.ep4j.Execution;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.Layout;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.DebugMode;
import org.ep4j.engine.Limits;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.ResultLifetime;
import org.jspecify.annotations.Nullable;

/**
 * The high-throughput operations of one buffer on one rank: checks, enqueues, and waits as the
 * caller requests. Used by one thread at a time.
 */
public final class HighThroughput {
  /**
   * Result objects of each kind, used in turn: a result is outdated for at least three operations.
   */
  private static final int RESULTS = 4;

  private final CudaContext context;
  private final HandlePool pool;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final ResultLifetime dispatchLifetime = new ResultLifetime("dispatch");
  private final ResultLifetime combineLifetime = new ResultLifetime("combine");
  private final CudaDispatch[] flatResults = new CudaDispatch[RESULTS];
  private final CudaDispatch[] groupedResults = new CudaDispatch[RESULTS];
  private final CudaCombine[] combineResults = new CudaCombine[RESULTS];
  private @Nullable CudaDispatch lastDispatch;

  private final boolean debug = DebugMode.isOn();

  /** Debug mode: the handle of the dispatch whose rows are in the receive region. */
  private @Nullable CudaHandle received;

  /** Debug mode: whether a graph may have written the receive region since. */
  private boolean replayed;

  private final Operation operation = new Operation();

  /** Number of enqueued operations. */
  public long dispatches;

  public long combines;

  public HighThroughput(CudaContext context, HandlePool pool) {
    this.context = context;
    this.pool = pool;
    dispatcher = new Dispatcher(context);
    combiner = new Combiner(context);
    for (int i = 0; i < RESULTS; i++) {
      flatResults[i] = newDispatch(Layout.FLAT);
      groupedResults[i] = newDispatch(Layout.EXPERT_MAJOR);
      combineResults[i] = new CudaCombine(context.completion, combineLifetime);
    }
  }

  private CudaDispatch newDispatch(Layout layout) {
    return layout == Layout.FLAT
        ? new CudaDispatch.Flat(context, dispatchLifetime)
        : new CudaDispatch.Grouped(context, dispatchLifetime);
  }

  /** Outdates all results: a reset discards the memory that they show. */
  public void outdateResults() {
    dispatchLifetime.next();
    combineLifetime.next();
  }

  /** The next result; that of a captured dispatch serves all replays and is not used again. */
  private CudaDispatch nextDispatch(Layout layout, boolean captured) {
    long number = dispatchLifetime.next();
    CudaDispatch last = lastDispatch;
    if (last != null) {
      last.end();
    }
    CudaDispatch[] results = layout == Layout.FLAT ? flatResults : groupedResults;
    int place = (int) (number % RESULTS);
    CudaDispatch result = results[place];
    if (captured) {
      results[place] = newDispatch(layout);
    }
    result.begin(number);
    lastDispatch = result;
    return result;
  }

  private CudaCombine nextCombine(boolean captured) {
    long number = combineLifetime.next();
    int place = (int) (number % RESULTS);
    CudaCombine result = combineResults[place];
    if (captured) {
      combineResults[place] = new CudaCombine(context.completion, combineLifetime);
    }
    result.begin(number);
    return result;
  }

  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    Arguments.highThroughputLayout(layout);
    Execution execution = options.execution();
    CudaStream stream = context.stream(execution.stream());
    boolean capturing = execution.stream() != null && stream.capturing();
    checkTokens(tokens, capturing);
    Arguments.routing(
        context.config, routing, Limits.tokens(context.config), Limits.HIGH_THROUGHPUT_TOKENS);
    context.staging.accepted(capturing).readable("topkIdx", routing.topkIdx());
    context.staging.accepted(capturing).readable("topkWeights", routing.topkWeights());
    Arguments.sameTokens(tokens, routing);
    Arguments.options(context.config, layout, options, context.layout.capacity);
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
    CudaHandle handle = pool.take(layout, capturing);
    boolean done = false;
    try {
      handle.generation = context.generation;
      handle.captured = capturing;
      dispatcher.dispatch(layout, tokens, routing, options, handle, stream);
      dispatches++;
      describe(OperationLayout.DISPATCH, handle, tokens)
          .set(OperationLayout.TOP_K, handle.topK)
          .set(OperationLayout.WEIGHTS, handle.weighted);
      handle.call = context.calls.add(operation);
      long end = finish(handle.ticket, CudaDispatch.NAME, execution);
      if (exact && (end == 0 || execution.stream() != null)) {
        handle.awaitCounts();
        refuseOverflow(handle);
      }
      CudaDispatch result = nextDispatch(layout, capturing);
      result.enqueued(handle, tokens, false, end, execution.stream() != null, capturing);
      received(handle, capturing);
      done = true;
      return result;
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
    checkTokens(tokens, capturing);
    CudaHandle handle = use(given);
    Arguments.sameLayout(layout, handle);
    Arguments.sameTokens(tokens, handle);
    context.order(stream, capturing, execution.previousEvent());
    long ticket = dispatcher.dispatchAgain(tokens, handle, stream, capturing);
    dispatches++;
    describe(OperationLayout.CACHED_DISPATCH, handle, tokens)
        .set(OperationLayout.HANDLE, handle.call);
    context.calls.add(operation);
    long end = finish(ticket, CudaDispatch.CACHED, execution);
    CudaDispatch result = nextDispatch(layout, capturing);
    result.enqueued(handle, tokens, true, end, execution.stream() != null, capturing);
    received(handle, capturing);
    return result;
  }

  public Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
    Execution execution = options.execution();
    CudaStream stream = context.stream(execution.stream());
    boolean capturing = execution.stream() != null && stream.capturing();
    CudaHandle handle = use(given);
    checkCombine(y, handle, options, capturing);
    if (debug) {
      requireRowsOf(handle, y);
    }
    context.order(stream, capturing, execution.previousEvent());
    Tensor wanted = options.out();
    boolean toHost = wanted != null && !wanted.onDevice();
    Tensor out = wanted == null || toHost ? combiner.ownSums(y.dtype(), handle.tokens) : wanted;
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
        .set(OperationLayout.HANDLE, handle.call);
    context.calls.add(operation);
    long end = finish(ticket, "combine", toHost ? Execution.SYNCHRONOUS : execution);
    if (wanted != null && toHost && wanted.byteSize() > 0) {
      DeviceCopies.toHost(context.device, wanted.segment(), out.address());
    }
    CudaCombine result = nextCombine(capturing);
    result.enqueued(
        wanted == null ? out : wanted, outWeights, end, execution.stream() != null, capturing);
    return result;
  }

  private void received(CudaHandle handle, boolean captured) {
    received = handle;
    replayed |= captured;
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

  private Operation describe(long kind, CudaHandle handle, Tokens tokens) {
    return operation
        .begin(kind)
        .payload(tokens)
        .set(OperationLayout.LAYOUT, handle.layout.ordinal())
        .set(OperationLayout.STATIC_SIZING, handle.staticSizing)
        .set(OperationLayout.EXPERT_ALIGNMENT, handle.alignment);
  }

  /** Waits for the end unless the caller waits itself; returns what is left to wait for, or 0. */
  private long finish(long ticket, String operation, Execution execution) {
    if (execution.stream() != null || execution.isAsync()) {
      return ticket;
    }
    context.completion.await(ticket, operation);
    return 0;
  }

  /** All ranks know all counts, so all ranks refuse. */
  private static void refuseOverflow(CudaHandle handle) {
    if (handle.overflowRank() >= 0) {
      throw new ReceiveOverflowException(
          handle.overflowRank(), handle.overflowNeeded(), handle.overflowLimit());
    }
  }

  private CudaHandle use(DispatchHandle given) {
    Arguments.highThroughput(context.config);
    context.completion.requireUsable();
    if (!(given instanceof CudaHandle handle) || !handle.isOf(pool)) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_OF_OTHER_BUFFER,
          "the dispatch handle belongs to another buffer: use it with the buffer that made it");
    }
    handle.requireOpen();
    if (handle.generation != context.generation) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_STALE,
          "the dispatch handle is older than the last reset(), which discarded its rows: dispatch"
              + " again");
    }
    return handle;
  }

  private void checkTokens(Tokens tokens, boolean capturing) {
    Arguments.highThroughput(context.config);
    Arguments.tokens(context.config, tokens, context.layout.maxScaleBytes);
    context.staging.accepted(capturing).rows("x", tokens.x());
    context.staging.accepted(capturing).readable("scales", tokens.scales());
    context.staging.accepted(capturing).readable("globalScales", tokens.globalScales());
  }

  private void checkCombine(
      Tensor y, CudaHandle handle, CombineOptions options, boolean capturing) {
    Arguments.combine(context.config, y, handle, options, handle.limit, capturing);
    Arguments.applyWeights(options, handle, handle.weighted);
    Arguments.wholeRows("y", y, context.config.hidden());
    context.staging.accepted(capturing).rows("y", y);
    context.staging.accepted(capturing).readable("topkWeights", options.topkWeights());
    context.staging.accepted(capturing).rows("bias0", options.bias0());
    context.staging.accepted(capturing).rows("bias1", options.bias1());
    Tensor out = options.out();
    context.staging.accepted(capturing).rows("out", out);
    if (out != null && !out.onDevice()) {
      Arguments.writableOnHost("out", out);
    }
  }
}
