package org.ep4j.cuda.engine.lowlatency;

import static java.util.Objects.requireNonNull;

import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import org.ep4j.DeviceStream;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.Layout;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.LowLatencyFormat;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Limits;
import org.ep4j.engine.LowLatencyShapes;
import org.ep4j.engine.Operation;

/**
 * Low-latency dispatch and combine of one rank: checks and enqueues, keeps at most two operations
 * in flight, and rotates their results. {@code kernels/lowlatency/low_latency.cuh} documents the
 * protocol between ranks. Used by one thread at a time.
 */
public final class LowLatency {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");

  /** Objects of each kind, used in rotation. */
  private static final int OBJECTS = 16;

  private static final int MAX_IN_FLIGHT = 2;

  /** Thread guard of the buffer: hooks enter through it. */
  public interface Entry {
    void enter();

    void leave();
  }

  private final CudaContext context;
  private final LowLatencyRegion part;
  private final LowLatencyMemory memory;
  private final LowLatencyKernels kernels;
  private final LowLatencyFormat[] formats;
  private final Entry entry;
  private final LowLatencyDispatchOperation[] dispatched = new LowLatencyDispatchOperation[OBJECTS];
  private final LowLatencyDispatchOperation[] dispatchedByRank =
      new LowLatencyDispatchOperation[OBJECTS];
  private final LowLatencyCombineOperation[] combined = new LowLatencyCombineOperation[OBJECTS];

  /** Operations sent and not received, in order. */
  private final ArrayDeque<LowLatencyOperation> inFlight = new ArrayDeque<>(MAX_IN_FLIGHT);

  private final Operation description = new Operation();
  private final boolean[] excluded;
  private final boolean[] noticed;

  /** For each half the last combine that sent from its region. */
  private final LowLatencyCombineOperation[] lastUse = new LowLatencyCombineOperation[2];

  /** Number of the last operation; kernels count separately. */
  private long number;

  /** Number of started dispatches and combines, and the last ones that a reset invalidated. */
  private long dispatchCount;

  private long combineCount;
  private long resetDispatch;
  private long resetCombine;

  /** Number of completely enqueued operations. */
  public long dispatches;

  public long combines;

  /** Resources of the operations, owned by their creator. */
  public record Resources(
      LowLatencyRegion part, LowLatencyMemory memory, LowLatencyKernels kernels) {}

  public LowLatency(CudaContext context, Resources resources, Entry entry) {
    this.context = context;
    this.part = resources.part();
    this.memory = resources.memory();
    this.kernels = resources.kernels();
    this.entry = entry;
    excluded = new boolean[context.ranks];
    noticed = new boolean[context.ranks];
    formats = LowLatencyFormat.all(context.config.hidden());
    kernels
        .calls()
        .forEach(call -> LowLatencyConstants.set(call.parameters, context, part, kernels));
    for (int i = 0; i < OBJECTS; i++) {
      dispatched[i] = new LowLatencyDispatchOperation(this, context, kernels, memory, formats[0]);
      dispatchedByRank[i] =
          new LowLatencyDispatchOperation.ByRank(this, context, kernels, memory, formats[0]);
      combined[i] = new LowLatencyCombineOperation(this, context, kernels, memory);
    }
  }

  Entry entry() {
    return entry;
  }

  Completion completion() {
    return context.completion;
  }

  public LowLatencyDispatch dispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    DeviceStream callers = options.execution().stream();
    CudaStream stream = context.stream(callers);
    boolean capturing = callers != null && stream.capturing();
    Staging staging = context.staging;
    LowLatencyShapes.dispatch(
        context.config, context.ranks, localExperts(), layout, x, routing, options);
    staging.checkRows("x", x, capturing);
    staging.check("topkIdx", routing.topkIdx(), capturing);
    if (layout == Layout.RANK_MAJOR) {
      staging.check("topkWeights", routing.topkWeights(), capturing);
    }
    staging.checkWritable("cumulativeStats", options.cumulativeStats(), capturing);
    staging.checkWritable("waitStats", options.waitStats(), capturing);
    context.completion.requireUsable();
    requirePlace();
    context.order(stream, capturing, options.execution().previousEvent());
    LowLatencyDispatchOperation op =
        (layout == Layout.RANK_MAJOR ? dispatchedByRank : dispatched)
            [(int) ((dispatchCount + 1) % OBJECTS)];
    LowLatencyFormat format =
        formats[LowLatencyFormat.index(options.format(), options.scaleKind())];
    op.prepare(dispatchCount + 1, layout, x, routing, format, options, stream, capturing);
    dispatchCount++;
    op.start(number + 1, options.returnHook(), callers, options.waitStats());
    begin(op, stream, capturing, options.returnHook(), options.execution().isAsync());
    return op;
  }

  public LowLatencyCombine combine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    DeviceStream callers = options.execution().stream();
    CudaStream stream = context.stream(callers);
    boolean capturing = callers != null && stream.capturing();
    context.completion.requireUsable();
    LowLatencyDispatchOperation dispatch = current(handle);
    if (dispatch.awaitsReceipt()) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED,
          dispatch.name() + " has not been received: call its hook before its combine");
    }
    Staging staging = context.staging;
    LowLatencyShapes.combine(
        context.config,
        context.ranks,
        localExperts(),
        y,
        routing,
        dispatch.tokens,
        dispatch.topK,
        dispatch.rankMajor ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR,
        options);
    staging.checkRows("y", y, capturing);
    Tensor region = dispatch.results().combineRegion();
    boolean isRegion = region != null && y.onDevice() && y.address() == region.address();
    boolean overlaps = region != null && Arguments.overlap(y, region);
    LowLatencyShapes.combineRegion(y, isRegion, overlaps, options);
    if (!dispatch.rankMajor) {
      staging.check("topkIdx", routing.topkIdx(), capturing);
      staging.check("topkWeights", requireNonNull(routing.topkWeights()), capturing);
    }
    staging.checkRows("out", options.out(), capturing);
    staging.checkWritable("out", options.out(), capturing);
    staging.checkWritable("waitStats", options.waitStats(), capturing);
    requirePlace();
    context.order(stream, capturing, options.execution().previousEvent());
    LowLatencyCombineOperation op = combined[(int) ((combineCount + 1) % OBJECTS)];
    op.prepare(combineCount + 1, y, routing, dispatch, options, stream);
    combineCount++;
    op.start(number + 1, options.returnHook(), callers, options.waitStats());
    if (options.zeroCopy()) {
      lastUse[dispatch.half()] = op;
    }
    begin(op, stream, capturing, options.returnHook(), options.execution().isAsync());
    return op;
  }

  /** The region that a zero-copy combine of {@code handle} sends from. */
  public Tensor combineBuffer(LowLatencyHandle handle) {
    context.completion.requireUsable();
    LowLatencyDispatchOperation dispatch = current(handle);
    LowLatencyCombineOperation before = lastUse[dispatch.half()];
    if (before != null) {
      // The first half of a combine sends rows from the region.
      before.settle();
    }
    return dispatch.results().combineBuffer();
  }

  /** Masks or admits one rank. */
  public void updateMask(int rank, boolean masked) {
    context.requireOneNode("the mask of low latency", CudaContext.ONE_NODE);
    LowLatencyShapes.maskedRank(rank, context.rank, context.ranks, excluded);
    context.completion.awaitAll();
    context.completion.requireNotFenced("updateMask");
    part.mask(rank, masked);
    noticed[rank] = masked;
    if (!masked) {
      catchUp();
    }
  }

  public boolean isMasked(int rank) {
    return excluded[rank] || part.isMasked(rank);
  }

  /** Admits all ranks except excluded ranks and, with masking, dead ranks. */
  public void cleanMask() {
    context.requireOneNode("the mask of low latency", CudaContext.ONE_NODE);
    context.completion.awaitAll();
    context.completion.requireNotFenced("cleanMask");
    for (int r = 0; r < context.ranks; r++) {
      boolean dead = Limits.masking(context.config) && !context.members.isAlive(r);
      part.mask(r, excluded[r] || dead);
      noticed[r] = excluded[r] || dead;
    }
    catchUp();
  }

  /** Adopts the highest operation number of all ranks; no rank is inside an operation. */
  private void catchUp() {
    long own = part.sent(context.rank);
    long highest = own;
    for (int r = 0; r < context.ranks; r++) {
      if (!excluded[r] && context.members.isAlive(r)) {
        highest = Math.max(highest, part.sent(r));
      }
    }
    if (highest > own) {
      if (!inFlight.isEmpty()) {
        throw new IllegalUseException(
            ErrorCode.HOOK_NOT_CALLED,
            "other ranks are at low-latency operation "
                + highest
                + ", this one at "
                + own
                + " with "
                + inFlight.getFirst().name()
                + " in flight: call its hook before ranks are admitted");
      }
      part.resumeAt(highest);
    }
    number = highest;
  }

  /**
   * Drops operations in flight and all results; all ranks continue after {@code last}. No kernel
   * runs.
   */
  public void reset(boolean[] gone, long last) {
    inFlight.forEach(LowLatencyOperation::drop);
    inFlight.clear();
    System.arraycopy(gone, 0, excluded, 0, gone.length);
    part.exclude(gone);
    part.resumeAfter(last, context.stream);
    number = last;
    resetDispatch = dispatchCount;
    resetCombine = combineCount;
    lastUse[0] = null;
    lastUse[1] = null;
  }

  /** Bytes that peers access. */
  public long symmetricBytes() {
    return part.layout().bytes;
  }

  /** Bytes that only this rank accesses. */
  public long privateBytes() {
    return memory.bytes();
  }

  boolean isOutdated(LowLatencyDispatchOperation op) {
    return op.ordinal <= resetDispatch || dispatchCount - op.ordinal >= 2;
  }

  boolean isOutdated(LowLatencyCombineOperation op) {
    return op.ordinal <= resetCombine || combineCount - op.ordinal >= 2;
  }

  /** Staging buffer of ids of the next operation; the previous one may still be in flight. */
  Staging.Buffer idsBuffer() {
    return (number & 1) == 0 ? Staging.Buffer.LATENCY_IDS_ODD : Staging.Buffer.LATENCY_IDS_EVEN;
  }

  /** Staging buffer of weights of the next operation. */
  Staging.Buffer weightsBuffer() {
    return (number & 1) == 0
        ? Staging.Buffer.LATENCY_WEIGHTS_ODD
        : Staging.Buffer.LATENCY_WEIGHTS_EVEN;
  }

  /**
   * Receives {@code op} after all operations sent before it: all ranks receive in the same order.
   */
  void receiveUpTo(LowLatencyOperation op) {
    context.completion.requireUsable();
    while (op.awaitsReceipt()) {
      LowLatencyOperation first = inFlight.getFirst();
      CudaStream stream = context.stream(first.callers);
      boolean capturing = first.callers != null && stream.capturing();
      context.order(stream, capturing, null);
      enqueue(first, stream, capturing, LowLatencyPhase.RECEIVE, false);
    }
    op.settle();
  }

  private int localExperts() {
    return context.placement.localExperts(context.rank);
  }

  private void begin(
      LowLatencyOperation op, CudaStream stream, boolean capturing, boolean hooked, boolean async) {
    if (hooked) {
      enqueue(op, stream, capturing, LowLatencyPhase.SEND, false);
      op.settle();
      return;
    }
    while (!inFlight.isEmpty()) {
      receiveUpTo(inFlight.getFirst());
    }
    enqueue(op, stream, capturing, LowLatencyPhase.BOTH, async);
  }

  /** Enqueues a kernel; waits for it unless {@code async} or on a caller's stream. */
  private void enqueue(
      LowLatencyOperation op,
      CudaStream stream,
      boolean capturing,
      LowLatencyPhase phases,
      boolean async) {
    KernelCall<LowLatencyParameters> call = op.call();
    LowLatencyParameters p = call.parameters;
    op.prepareSend(p);
    p.phases.set(phases.bits);
    if (phases != LowLatencyPhase.SEND) {
      op.prepareReceive(p, stream);
    }
    long ticket = context.completion.nextMasking(capturing);
    // Only a stream waits for replayed work: a notification of the host would cost a fence.
    p.receipt.ticket.set(capturing ? 0 : ticket);
    launch(op, call, ticket, stream);
    if (phases == LowLatencyPhase.RECEIVE) {
      inFlight.removeFirst();
    } else {
      number++;
      remember(op);
    }
    if (phases == LowLatencyPhase.SEND) {
      inFlight.add(op);
    } else {
      op.count();
    }
    if (phases == LowLatencyPhase.SEND) {
      op.sent(ticket);
      return;
    }
    op.enqueued(ticket);
    if (op.endsOnHost()) {
      op.awaitEnd();
      op.toHost();
    } else if (!async) {
      op.settle();
    }
    noticeMasks();
  }

  private void launch(
      LowLatencyOperation op,
      KernelCall<LowLatencyParameters> call,
      long ticket,
      CudaStream stream) {
    long pieces = (long) op.tokens * context.ranks * part.layout().pieces;
    boolean launched = false;
    try {
      call.launch(context.lowLatencySms(pieces), op.sharedBytes(), stream.handle());
      launched = true;
    } finally {
      if (!launched) {
        context.completion.withdraw(ticket);
      }
    }
  }

  /** Publishes the call to peers. With masks, ranks may have called different operations. */
  private void remember(LowLatencyOperation op) {
    op.call = 0;
    if (!Limits.masking(context.config)) {
      op.describe(description);
      op.call = context.calls.add(description);
    }
  }

  /** Refuses a third operation in flight. */
  private void requirePlace() {
    if (inFlight.size() == MAX_IN_FLIGHT) {
      throw new IllegalUseException(
          ErrorCode.TOO_MANY_IN_FLIGHT,
          "a third low-latency operation would be in flight: call the hook of "
              + inFlight.getFirst().name()
              + " first");
    }
  }

  private LowLatencyDispatchOperation current(LowLatencyHandle handle) {
    if (!(handle instanceof LowLatencyDispatchOperation dispatch) || !dispatch.isOf(this)) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_LOW_LATENCY_HANDLE,
          "handle",
          String.valueOf(handle),
          "of a lowLatencyDispatch of this buffer",
          "pass that one");
    }
    dispatch.requireCurrent();
    return dispatch;
  }

  /** Logs the ranks that kernels have masked. */
  private void noticeMasks() {
    if (!Limits.masking(context.config)) {
      return;
    }
    for (int r = 0; r < context.ranks; r++) {
      boolean masked = part.isMasked(r);
      if (masked && !noticed[r]) {
        String death = context.members.deathReport(r);
        LOG.log(
            Level.WARNING,
            "low-latency operation {0}: rank {1} is {2} and is masked; operations continue without"
                + " it",
            number,
            r,
            death == null ? "silent" : "dead (" + death + ")");
      }
      noticed[r] = masked;
    }
  }
}
