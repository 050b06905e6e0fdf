package org.ep4j.cuda.engine.throughput;

import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DeviceStream;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.Routing;
import org.ep4j.Schedule;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.StreamEvent;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.jspecify.annotations.Nullable;

/**
 * The high-throughput operations of one buffer on one rank: checks, enqueues, and waits as the
 * caller requests. Used by one thread at a time.
 */
public final class HighThroughput {
  private final CudaContext context;
  private final HandlePool pool;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final CudaDispatch dispatchResult;
  private final Operation operation = new Operation();
  private final CudaCombine combineResult = new CudaCombine();

  /** Number of enqueued operations. */
  public long dispatches;

  public long combines;

  public HighThroughput(CudaContext context, HandlePool pool) {
    this.context = context;
    this.pool = pool;
    dispatcher = new Dispatcher(context);
    combiner = new Combiner(context);
    dispatchResult = new CudaDispatch(context);
  }

  public Dispatch dispatch(Tokens tokens, Routing routing, DispatchOptions options) {
    CudaStream stream = context.stream(options.stream());
    boolean capturing = options.stream() != null && stream.capturing();
    checkTokens(tokens, capturing);
    Arguments.routing(context.config, routing, context.config.maxTokens(), "maxTokens");
    context.staging.check("topkIdx", routing.topkIdx(), capturing);
    context.staging.check("topkWeights", routing.topkWeights(), capturing);
    Arguments.sameTokens(tokens, routing);
    Arguments.options(context.config, options, context.layout.capacity);
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
    context.order(stream, capturing, options.previousEvent());
    CudaHandle handle = pool.take(capturing);
    boolean done = false;
    try {
      handle.generation = context.generation;
      handle.captured = capturing;
      dispatcher.dispatch(tokens, routing, options, handle, stream);
      dispatches++;
      describe(OperationLayout.DISPATCH, handle, tokens)
          .set(OperationLayout.TOP_K, handle.topK)
          .set(OperationLayout.WEIGHTS, handle.weighted);
      handle.call = context.calls.add(operation);
      Event end = finish(handle.ticket, "dispatch", options.stream(), options.async());
      if (exact && (end == Event.completed() || options.stream() != null)) {
        handle.awaitCounts();
        refuseOverflow(handle);
      }
      dispatchResult.enqueued(handle, tokens, false, end, options.stream() != null);
      done = true;
      return dispatchResult;
    } finally {
      if (!done) {
        // The caller never gets this handle, so it is closed here.
        handle.close();
      }
    }
  }

  public Dispatch dispatch(Tokens tokens, DispatchHandle given, Schedule schedule) {
    CudaStream stream = context.stream(schedule.stream());
    boolean capturing = schedule.stream() != null && stream.capturing();
    checkTokens(tokens, capturing);
    CudaHandle handle = use(given);
    Arguments.sameTokens(tokens, handle);
    context.order(stream, capturing, schedule.previousEvent());
    long ticket = dispatcher.dispatchAgain(tokens, handle, stream, capturing);
    dispatches++;
    describe(OperationLayout.CACHED_DISPATCH, handle, tokens)
        .set(OperationLayout.HANDLE, handle.call);
    context.calls.add(operation);
    Event end = finish(ticket, "cached dispatch", schedule.stream(), schedule.async());
    dispatchResult.enqueued(handle, tokens, true, end, schedule.stream() != null);
    return dispatchResult;
  }

  public Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
    CudaStream stream = context.stream(options.stream());
    boolean capturing = options.stream() != null && stream.capturing();
    CudaHandle handle = use(given);
    checkCombine(y, handle, options, capturing);
    context.order(stream, capturing, options.previousEvent());
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
        .set(OperationLayout.HANDLE, handle.call);
    context.calls.add(operation);
    Event end =
        finish(ticket, "combine", toHost ? null : options.stream(), options.async() && !toHost);
    if (wanted != null && toHost && wanted.byteSize() > 0) {
      DeviceCopies.toHost(context.device, wanted.segment(), out.address());
    }
    combineResult.enqueued(
        wanted == null ? out : wanted, outWeights, end, options.stream() != null);
    return combineResult;
  }

  private Operation describe(long kind, CudaHandle handle, Tokens tokens) {
    return operation
        .begin(kind)
        .payload(tokens)
        .set(OperationLayout.LAYOUT, handle.layout.ordinal())
        .set(OperationLayout.STATIC_SIZING, handle.staticSizing)
        .set(OperationLayout.EXPERT_ALIGNMENT, handle.alignment);
  }

  /** Waits for the end unless the caller waits itself; returns the event of the enqueued work. */
  private Event finish(
      long ticket, String operation, @Nullable DeviceStream callers, boolean async) {
    if (callers != null || async) {
      return new StreamEvent(context.completion, ticket, operation);
    }
    context.completion.await(ticket, operation);
    return Event.completed();
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
    context.staging.checkRows("x", tokens.x(), capturing);
    context.staging.check("scales", tokens.scales(), capturing);
    context.staging.check("globalScales", tokens.globalScales(), capturing);
  }

  private void checkCombine(
      Tensor y, CudaHandle handle, CombineOptions options, boolean capturing) {
    Arguments.combine(context.config, y, handle, options, handle.limit, capturing);
    Arguments.wholeRows("y", y, context.config.hidden());
    context.staging.checkRows("y", y, capturing);
    context.staging.check("topkWeights", options.topkWeights(), capturing);
    context.staging.checkRows("bias0", options.bias0(), capturing);
    context.staging.checkRows("bias1", options.bias1(), capturing);
    Tensor out = options.out();
    context.staging.checkRows("out", out, capturing);
    if (out != null && !out.onDevice()) {
      Arguments.writableOnHost("out", out);
    }
  }
}
