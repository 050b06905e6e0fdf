package org.ep4j.cuda.engine.lowlatency;

import java.lang.System.Logger.Level;
import java.util.Arrays;
import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.ExpertIds;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Limits;
import org.ep4j.engine.Operation;
import org.ep4j.engine.lowlatency.Flights;
import org.ep4j.engine.lowlatency.LowLatencyChecks;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyFormats;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.observe.MaskEvent;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Low-latency dispatch and combine of one rank: checks and enqueues. {@link Flights} has the order
 * of the operations; {@code kernels/lowlatency/low_latency.cuh} documents the protocol between
 * ranks. Used by one thread at a time.
 */
public final class LowLatency {
  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final String BY_UPDATE = "by updateMask()";
  private static final String BY_CLEANING = "by cleanMask()";

  /** No operation has this number. */
  private static final long NOT_BY_CALLER = -1;

  private final CudaContext context;
  private final LowLatencyRegion part;
  private final LowLatencyMemory memory;
  private final LowLatencyKernels kernels;
  private final LowLatencyFormats formats;
  private final ExpertIds expertIds;

  /** The shape of the last call: that of the buffer but for the experts. */
  private OutputShape callShape;

  private final Flights flights;
  private final LowLatencyDispatchOperation[] dispatched =
      new LowLatencyDispatchOperation[Flights.OBJECTS];
  private final LowLatencyCombineOperation[] combined =
      new LowLatencyCombineOperation[Flights.OBJECTS];

  private final Operation description = new Operation();
  private final boolean[] excluded;

  /** The masked ranks that have been logged and recorded. */
  private final boolean[] noticed;

  /** By rank, the number of the last operation when the caller masked it. */
  private final long[] maskedAt;

  /** For each half the last combine that sent from its region. */
  private final LowLatencyCombineOperation[] lastUse = new LowLatencyCombineOperation[2];

  /** Whether a graph may hold the addresses of an operation. */
  private boolean captured;

  /** Number of completely enqueued operations. */
  public long dispatches;

  public long combines;

  /** Resources of the operations, owned by their creator. */
  public record Resources(
      LowLatencyRegion part, LowLatencyMemory memory, LowLatencyKernels kernels) {}

  public LowLatency(CudaContext context, Resources resources, Flights.Entry entry) {
    this.context = context;
    this.part = resources.part();
    this.memory = resources.memory();
    this.kernels = resources.kernels();
    flights = new Flights(entry);
    excluded = new boolean[context.ranks];
    noticed = new boolean[context.ranks];
    maskedAt = new long[context.ranks];
    Arrays.fill(maskedAt, NOT_BY_CALLER);
    formats = new LowLatencyFormats(context.config.hidden());
    callShape = memory.shape();
    expertIds =
        new ExpertIds(
            context,
            part.own() + LowLatencyLayout.SENT,
            HostWords.LOW_LATENCY,
            Limits.lowLatencyTokens(context.config));
    kernels
        .calls()
        .forEach(call -> LowLatencyConstants.set(call.parameters, context, part, kernels));
    for (int i = 0; i < Flights.OBJECTS; i++) {
      dispatched[i] =
          new LowLatencyDispatchOperation(this, context, kernels, memory, formats.any());
      combined[i] = new LowLatencyCombineOperation(this, context, kernels, memory);
    }
  }

  Flights flights() {
    return flights;
  }

  Completion completion() {
    return context.completion;
  }

  public LowLatencyDispatch dispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    DeviceStream callers = options.execution().stream();
    CudaStream stream = context.stream(callers);
    boolean capturing = callers != null && stream.capturing();
    int local = context.experts.local(context.experts.number(options.experts()));
    LowLatencyChecks.dispatch(
        context.config,
        shapeOf(local),
        layout,
        x,
        routing,
        options,
        context.staging.accepted(capturing));
    context.completion.requireUsable();
    flights.requirePlace();
    context.order(stream, capturing, options.execution().previousEvent());
    long ordinal = flights.dispatches.next();
    LowLatencyDispatchOperation op = dispatched[(int) (ordinal % Flights.OBJECTS)];
    LowLatencyFormat format = formats.of((int) x.size(1), options);
    op.prepare(ordinal, layout, x, routing, format, options, stream, capturing);
    op.begin(callers, options.waitStats());
    flights.start(op.flight, flights.dispatches, options.returnHook(), true);
    enqueue(op, stream, capturing, options.returnHook(), options.execution().isAsync());
    return op.result();
  }

  public LowLatencyCombine combine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    DeviceStream callers = options.execution().stream();
    CudaStream stream = context.stream(callers);
    boolean capturing = callers != null && stream.capturing();
    context.completion.requireUsable();
    LowLatencyDispatchOperation dispatch = dispatchOf(handle);
    Flights.requireReceived(dispatch.flight);
    LowLatencyChecks.combine(
        shapeOf(dispatch.localExperts()),
        y,
        routing,
        dispatch.tokens,
        dispatch.topK(),
        dispatch.hidden(),
        dispatch.layout(),
        dispatch.out().combineRegion(dispatch.layout()),
        options,
        context.staging.accepted(capturing));
    flights.requirePlace();
    context.order(stream, capturing, options.execution().previousEvent());
    long ordinal = flights.combines.next();
    LowLatencyCombineOperation op = combined[(int) (ordinal % Flights.OBJECTS)];
    op.prepare(ordinal, y, routing, dispatch, options, stream);
    op.begin(callers, options.waitStats());
    flights.start(op.flight, flights.combines, options.returnHook(), options.out() == null);
    if (options.zeroCopy()) {
      lastUse[dispatch.flight.half()] = op;
    }
    enqueue(op, stream, capturing, options.returnHook(), options.execution().isAsync());
    return op;
  }

  /** The region that a zero-copy combine of {@code handle} sends from. */
  public Tensor combineBuffer(LowLatencyHandle handle) {
    context.completion.requireUsable();
    LowLatencyDispatchOperation dispatch = dispatchOf(handle);
    LowLatencyCombineOperation before = lastUse[dispatch.flight.half()];
    if (before != null) {
      // The first half of a combine sends rows from the region.
      before.settle();
    }
    Layout layout = dispatch.layout();
    int groups = shapeOf(dispatch.localExperts()).groups(layout);
    return dispatch.out().makeCombineRegion(layout, groups, dispatch.hidden());
  }

  private LowLatencyDispatchOperation dispatchOf(LowLatencyHandle handle) {
    return (LowLatencyDispatchOperation) flights.dispatchOf(handle);
  }

  /** Masks or admits one rank. */
  public void updateMask(int rank, boolean masked) {
    requireMasks();
    LowLatencyChecks.maskedRank(rank, context.rank, context.ranks, excluded);
    context.completion.awaitAll();
    context.completion.requireNotFenced("updateMask");
    if (context.internode != null) {
      updateMaskAcrossNodes(rank, masked);
      return;
    }
    part.mask(rank, masked);
    note(rank, masked, BY_UPDATE);
    if (!masked) {
      catchUp();
    }
  }

  /** Between nodes only buffers that mask by themselves have memory for late writers. */
  public void requireMasks() {
    if (!Limits.masking(context.config)) {
      context.requireOneNode(
          "the mask of low latency without LowLatencyConfig.masking", "set masking to true");
    }
  }

  /** Words for a masked rank are not sent, so a rank that has missed some cannot continue. */
  private void updateMaskAcrossNodes(int rank, boolean masked) {
    long number = part.sent(context.rank);
    if (!masked && part.isMasked(rank) && maskedAt[rank] != number) {
      throw new IllegalUseException(
          ErrorCode.OPERATIONS_MISSED,
          "updateMask: rank "
              + rank
              + " is masked and may have missed low-latency operations, up to "
              + number
              + ": call cleanMask() on all ranks while none is inside an operation");
    }
    if (masked && !part.isMasked(rank)) {
      maskedAt[rank] = number;
    }
    part.setMask(rank, masked);
    note(rank, masked, BY_UPDATE);
  }

  /** Why masked ranks cannot be admitted now; empty if they can. */
  public String refusesAdmission() {
    return flights.awaitsHook()
        ? "cleanMask: a low-latency operation is in flight: call its hook before"
        : "";
  }

  /**
   * Between nodes: admits all ranks but the missing ones; operations of all ranks continue after
   * {@code last}. No kernel runs.
   */
  public void admit(boolean[] missing, long last) {
    long own = part.sent(context.rank);
    for (int r = 0; r < context.ranks; r++) {
      boolean masked = excluded[r] || missing[r];
      part.setMask(r, masked);
      note(r, masked, BY_CLEANING);
      maskedAt[r] = NOT_BY_CALLER;
    }
    flights.catchUp(last, own);
    part.resumeAfter(last, context.stream);
  }

  public boolean isMasked(int rank) {
    return excluded[rank] || part.isMasked(rank);
  }

  /**
   * Admits all ranks of one node except excluded ranks and, with masking, dead ranks and ranks that
   * have closed.
   */
  public void cleanMask() {
    context.completion.awaitAll();
    context.completion.requireNotFenced("cleanMask");
    for (int r = 0; r < context.ranks; r++) {
      boolean missing = excluded[r] || (Limits.masking(context.config) && isLost(r));
      part.mask(r, missing);
      note(r, missing, BY_CLEANING);
    }
    catchUp();
  }

  private boolean isLost(int peer) {
    return !context.members.isAlive(peer) || context.completion.hasClosed(peer);
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
    flights.catchUp(highest, own);
    if (highest > own) {
      part.resumeAt(highest);
    }
  }

  /**
   * Drops operations in flight and all results; all ranks continue after {@code last}. No kernel
   * runs.
   */
  public void reset(boolean[] gone, long last) {
    System.arraycopy(gone, 0, excluded, 0, gone.length);
    part.exclude(gone);
    part.resumeAfter(last, context.stream);
    for (int r = 0; r < gone.length; r++) {
      if (!part.isMasked(r)) {
        // Only a rank that has taken the place of another one has lost its mask here.
        note(r, false, "has rejoined");
      }
    }
    flights.reset(last);
    lastUse[0] = null;
    lastUse[1] = null;
  }

  /**
   * Why the transport between the nodes cannot be replaced; empty if it can. Between nodes, graphs
   * hold the address of this rank's receive memory, which changes; their replays would read memory
   * that has been freed.
   */
  public String refusesReconnection() {
    return captured
        ? "low-latency operations of this buffer were captured in graphs, which between nodes hold"
            + " the address of memory that is replaced: close the buffer on all ranks, open it"
            + " again, and capture the graphs anew"
        : "";
  }

  /**
   * Adopts the new transport between the nodes; called before {@link #reset}. No kernel runs, and
   * later calls use the new addresses.
   */
  public void reconnect() {
    part.reconnect();
    kernels
        .calls()
        .forEach(call -> LowLatencyConstants.set(call.parameters, context, part, kernels));
  }

  /** Bytes of this rank that operations have added at their first use. */
  public long grownBytes() {
    return memory.grownBytes();
  }

  private OutputShape shapeOf(int local) {
    if (callShape.experts() != local) {
      callShape = memory.shape().withExperts(local);
    }
    return callShape;
  }

  /** Whether the next operation has an odd number: the previous one may still be in flight. */
  private boolean isOdd() {
    return (flights.number() & 1) == 0;
  }

  /** Address of the ids of the next operation, as the caller passed them. */
  private long givenIds(Tensor ids, CudaStream stream) {
    return context.staging.address(
        isOdd() ? Staging.Buffer.LATENCY_IDS_ODD : Staging.Buffer.LATENCY_IDS_EVEN, ids, stream);
  }

  /** Address of what orders the rows of the next combine: see {@link CombineOrder#EXPERT}. */
  long orderIds(Routing routing, CudaStream stream) {
    Tensor logical = routing.logicalIdx();
    return logical == null
        ? givenIds(routing.topkIdx(), stream)
        : context.staging.address(
            isOdd()
                ? Staging.Buffer.LATENCY_LOGICAL_IDS_ODD
                : Staging.Buffer.LATENCY_LOGICAL_IDS_EVEN,
            logical,
            stream);
  }

  /**
   * Address of the ids of the next operation, as experts of the buffer; INT64 if {@code experts},
   * those of the call, are fewer. The previous operation may still be in flight.
   */
  long expertIds(Tensor ids, int experts, CudaStream stream) {
    boolean odd = isOdd();
    long given = givenIds(ids, stream);
    if (context.experts.isOfBuffer(experts)) {
      return given;
    }
    Staging.Buffer buffer =
        odd ? Staging.Buffer.LATENCY_EXPERT_IDS_ODD : Staging.Buffer.LATENCY_EXPERT_IDS_EVEN;
    return expertIds.enqueue(buffer, ids, given, experts, stream);
  }

  /** Staging buffer of weights of the next operation. */
  Staging.Buffer weightsBuffer() {
    return isOdd() ? Staging.Buffer.LATENCY_WEIGHTS_ODD : Staging.Buffer.LATENCY_WEIGHTS_EVEN;
  }

  /** Enqueues the receiving half of an operation. */
  void receive(LowLatencyOperation op) {
    CudaStream stream = context.stream(op.callers);
    boolean capturing = op.callers != null && stream.capturing();
    context.order(stream, capturing, null);
    enqueue(op, stream, capturing, LowLatencyPhase.RECEIVE, false);
  }

  private void enqueue(
      LowLatencyOperation op, CudaStream stream, boolean capturing, boolean hooked, boolean async) {
    if (hooked) {
      enqueue(op, stream, capturing, LowLatencyPhase.SEND, false);
      op.settle();
      return;
    }
    flights.receiveAll();
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
    captured |= capturing;
    long ticket = context.completion.nextMasking(capturing);
    // Only a stream waits for replayed work: a notification of the host would cost a fence.
    p.receipt.ticket.set(capturing ? 0 : ticket);
    launch(op, call, ticket, stream);
    if (phases != LowLatencyPhase.RECEIVE) {
      flights.add(op.flight);
      remember(op);
    }
    op.enqueued(ticket);
    if (phases == LowLatencyPhase.SEND) {
      op.flight.sent();
      return;
    }
    op.flight.received();
    op.count();
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

  private String state(int masked) {
    if (!context.members.isAlive(masked)) {
      return context.members.departureOf(masked);
    }
    if (context.completion.hasAborted(masked)) {
      return "is in no operation until a reset, because one of its operations has failed,";
    }
    return context.completion.hasClosed(masked) ? "has closed its buffer" : "is silent";
  }

  /** Whether a rank takes part in no further operation because its program has ended it. */
  private boolean hasEnded(int peer) {
    return context.members.isAlive(peer)
        ? context.completion.hasClosed(peer) && !context.completion.hasAborted(peer)
        : context.members.hasLeft(peer);
  }

  /** Logs and records the ranks that kernels have masked. */
  private void noticeMasks() {
    if (!Limits.masking(context.config)) {
      return;
    }
    for (int r = 0; r < context.ranks; r++) {
      boolean masked = part.isMasked(r);
      if (masked == noticed[r]) {
        continue;
      }
      String state = state(r);
      if (masked) {
        LOG.log(
            hasEnded(r) ? Level.INFO : Level.WARNING,
            "low-latency operation {0}: rank {1} {2} and is masked; operations continue without"
                + " it",
            flights.number(),
            r,
            state);
      }
      note(r, masked, state);
    }
  }

  /** Remembers that a rank is masked, or no longer, and records a change. */
  private void note(int peer, boolean masked, String reason) {
    if (noticed[peer] != masked) {
      noticed[peer] = masked;
      MaskEvent.record(context.rank, peer, masked, reason);
    }
  }
}
