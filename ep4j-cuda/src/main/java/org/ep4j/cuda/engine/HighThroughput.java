package org.ep4j.cuda.engine;

import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.DType;
import org.ep4j.DeviceStream;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Event;
import org.ep4j.Layout;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.Routing;
import org.ep4j.Schedule;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.engine.Arguments;
import org.jspecify.annotations.Nullable;

/**
 * The high-throughput operations of one buffer on one rank: checks, enqueues, and waits as the
 * caller wishes. Used by one thread at a time.
 */
final class HighThroughput {
  private final CudaContext context;
  private final HandlePool pool;
  private final Dispatcher dispatcher;
  private final Combiner combiner;
  private final CudaDispatch dispatchResult;
  private final CudaCombine combineResult = new CudaCombine();

  /** Operations enqueued so far. */
  long dispatches;

  long combines;

  HighThroughput(CudaContext context, HandlePool pool) {
    this.context = context;
    this.pool = pool;
    dispatcher = new Dispatcher(context);
    combiner = new Combiner(context);
    dispatchResult = new CudaDispatch(context);
  }

  Dispatch dispatch(Tokens tokens, Routing routing, DispatchOptions options) {
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
      throw Arguments.invalid(
          "sizing",
          "EXACT",
          "STATIC while a graph is captured: a replay cannot tell the host its counts",
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
        // The caller never sees it, so nobody else can.
        handle.close();
      }
    }
  }

  Dispatch dispatch(Tokens tokens, DispatchHandle given, Schedule schedule) {
    CudaStream stream = context.stream(schedule.stream());
    boolean capturing = schedule.stream() != null && stream.capturing();
    checkTokens(tokens, capturing);
    CudaHandle handle = use(given);
    if (tokens.x().size(0) != handle.tokens) {
      throw Arguments.invalid(
          "x",
          tokens.x(),
          "of " + handle.tokens + " tokens like the dispatch that made the handle",
          "pass the same number of tokens, or dispatch with a routing");
    }
    context.order(stream, capturing, schedule.previousEvent());
    long ticket = dispatcher.dispatchAgain(tokens, handle, stream, capturing);
    dispatches++;
    Event end = finish(ticket, "cached dispatch", schedule.stream(), schedule.async());
    dispatchResult.enqueued(handle, tokens, true, end, schedule.stream() != null);
    return dispatchResult;
  }

  Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
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
    Event end =
        finish(ticket, "combine", toHost ? null : options.stream(), options.async() && !toHost);
    if (wanted != null && toHost && wanted.byteSize() > 0) {
      DeviceCopies.toHost(context.device, wanted.segment(), out.address());
    }
    combineResult.enqueued(
        wanted == null ? out : wanted, outWeights, end, options.stream() != null);
    return combineResult;
  }

  /** Waits for the end unless the caller wants to; the event of what has been enqueued. */
  private Event finish(
      long ticket, String operation, @Nullable DeviceStream callers, boolean async) {
    if (callers != null || async) {
      return new StreamEvent(context.completion, ticket, operation);
    }
    context.completion.await(ticket, operation);
    return Event.completed();
  }

  /** All ranks know all counts, so all of them refuse. */
  private static void refuseOverflow(CudaHandle handle) {
    if (handle.overflowRank() >= 0) {
      throw new ReceiveOverflowException(
          handle.overflowRank(), handle.overflowNeeded(), handle.overflowLimit());
    }
  }

  private CudaHandle use(DispatchHandle given) {
    requireOpened();
    context.completion.requireUsable();
    if (!(given instanceof CudaHandle handle) || !handle.isOf(pool)) {
      throw new IllegalStateException(
          "the dispatch handle belongs to another buffer: use it with the buffer that made it");
    }
    handle.requireOpen();
    if (handle.generation != context.generation) {
      throw new IllegalStateException(
          "the dispatch handle is older than the last reset(): its rows are lost, dispatch again");
    }
    return handle;
  }

  private void requireOpened() {
    if (context.config.maxTokens() == 0) {
      throw new IllegalStateException(
          "the buffer was opened without high-throughput operations: set BufferConfig.maxTokens");
    }
  }

  private void checkTokens(Tokens tokens, boolean capturing) {
    requireOpened();
    Arguments.tokens(context.config, tokens, context.layout.maxScaleBytes);
    context.staging.checkRows("x", tokens.x(), capturing);
    context.staging.check("scales", tokens.scales(), capturing);
    context.staging.check("globalScales", tokens.globalScales(), capturing);
  }

  private void checkCombine(
      Tensor y, CudaHandle handle, CombineOptions options, boolean capturing) {
    int hidden = context.config.hidden();
    if (!y.dtype().summable()
        || y.dimensions() != 2
        || y.size(1) != hidden
        || hidden % (128 / y.dtype().bits()) != 0) {
      throw Arguments.invalid(
          "y", y, "BF16, FP16 or FP32 [rows, " + hidden + "]", "pass the experts' rows");
    }
    checkCount("y", y, handle, capturing);
    context.staging.checkRows("y", y, capturing);
    Tensor weights = options.topkWeights();
    if (weights != null) {
      boolean flat = handle.layout == Layout.FLAT;
      if (weights.dtype() != DType.FP32
          || weights.dimensions() != (flat ? 2 : 1)
          || (flat && weights.size(1) != handle.topK)) {
        throw Arguments.invalid(
            "topkWeights",
            weights,
            flat ? "FP32[rows, " + handle.topK + "]" : "FP32[rows]",
            "pass weights as the dispatch delivered them");
      }
      checkCount("topkWeights", weights, handle, capturing);
      context.staging.check("topkWeights", weights, capturing);
    }
    checkBias("bias0", options.bias0(), y, handle, capturing);
    checkBias("bias1", options.bias1(), y, handle, capturing);
    Tensor out = options.out();
    if (out != null) {
      Arguments.shape("out", out, y.dtype(), handle.tokens, hidden);
      context.staging.checkRows("out", out, capturing);
      if (!out.onDevice()) {
        Arguments.writableOnHost("out", out);
      }
      if (Staging.overlap(out, y)) {
        throw Arguments.invalid(
            "out", out, "apart from y", "y is read while out is written: use other memory");
      }
    }
  }

  /** Asks for the true count only where the tensor is shorter than the most that may come. */
  private static void checkCount(String name, Tensor tensor, CudaHandle handle, boolean capturing) {
    if (tensor.size(0) >= handle.limit) {
      return;
    }
    long rows = capturing ? handle.limit : handle.rows();
    if (tensor.size(0) < rows) {
      throw Arguments.invalid(
          name,
          tensor,
          "of at least " + rows + " rows, as many as this rank received",
          "pass one row for each received row");
    }
  }

  private void checkBias(
      String name, @Nullable Tensor bias, Tensor y, CudaHandle handle, boolean capturing) {
    if (bias != null) {
      Arguments.shape(name, bias, y.dtype(), handle.tokens, context.config.hidden());
      context.staging.checkRows(name, bias, capturing);
    }
  }
}
