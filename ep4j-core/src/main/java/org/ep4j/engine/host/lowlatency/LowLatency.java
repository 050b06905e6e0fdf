package org.ep4j.engine.host.lowlatency;

import java.lang.foreign.Arena;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostCallMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.engine.lowlatency.Flights;
import org.ep4j.engine.lowlatency.LowLatencyChecks;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyFormats;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.OperationEvent;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Low-latency dispatch and combine of one rank. {@link Flights} has the order of the operations,
 * {@link LowLatencyLayout} is the protocol between ranks.
 *
 * <p>Used by one thread at a time; the operations of asynchronous calls run on the thread of {@link
 * LowLatencyEntry#later}, in order.
 */
public final class LowLatency implements AutoCloseable {
  private static final int RECORDS = 3;

  private final HostContext context;
  private final LowLatencyEntry entry;
  private final OutputShape shape;
  private final CallExperts experts;

  /** The shape of the last call: that of the buffer but for the experts. */
  private OutputShape callShape;

  private final Flights flights;
  private final LowLatencyMemory memory;

  /** Null unless the buffer is in debug mode. */
  private final @Nullable OutdatedResults outdated;

  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyRouting routing;
  private final LowLatencyRouting lateRouting;
  private final LowLatencyDispatchSender dispatchSender;
  private final LowLatencyDispatchReceiver dispatchReceiver;
  private final LowLatencyCombineSender combineSender;
  private final LowLatencyCombineReceiver combineReceiver;
  private final LowLatencyCounters counters = new LowLatencyCounters();
  private final LowLatencyFormats formats;
  private final LowLatencyRecord[] records = new LowLatencyRecord[RECORDS];
  private final LowLatencyDispatchOperation[] dispatches =
      new LowLatencyDispatchOperation[Flights.OBJECTS];
  private final LowLatencyCombineOperation[] combines =
      new LowLatencyCombineOperation[Flights.OBJECTS];

  /** The combine regions in their largest shape: by experts, then by ranks. */
  private final Tensor[] combineTensors = new Tensor[4];

  private final CombineRows combineRows;
  private final Arena views;

  /**
   * @param views arena of the tensors for callers; the owner closes it before this object
   */
  public LowLatency(
      HostContext context,
      LowLatencyLayout layout,
      ExpertTable table,
      LowLatencyEntry entry,
      Arena views) {
    this.context = context;
    this.entry = entry;
    this.views = views;
    flights = new Flights(entry);
    int local = context.placement.localExperts(context.rank);
    shape = OutputShape.of(context.config, context.ranks, local);
    callShape = shape;
    this.experts = new CallExperts(context.config, context.rank);
    RowKernels kernels = RowKernels.get();
    memory = new LowLatencyMemory(shape, views);
    outdated = context.debug ? new OutdatedResults(memory) : null;
    paths = new LowLatencyPaths(context, layout);
    signals = new LowLatencySignals(context, layout, paths);
    routing = new LowLatencyRouting(context.config.experts());
    lateRouting = new LowLatencyRouting(context.config.experts());
    dispatchSender =
        new LowLatencyDispatchSender(context, paths, signals, memory, table, kernels, counters);
    dispatchReceiver =
        new LowLatencyDispatchReceiver(context, layout, paths, signals, memory, kernels, counters);
    combineSender = new LowLatencyCombineSender(context, layout, paths, signals, memory, kernels);
    combineReceiver =
        new LowLatencyCombineReceiver(context, layout, paths, signals, memory, table, kernels);
    combineRows = new CombineRows(context, layout, memory, local);
    formats = new LowLatencyFormats(shape.hidden());
    for (int i = 0; i < RECORDS; i++) {
      records[i] = new LowLatencyRecord(context.ranks, shape.tokens(), shape.topK(), local);
    }
    for (int i = 0; i < Flights.OBJECTS; i++) {
      dispatches[i] = new LowLatencyDispatchOperation(this, memory, records[0], formats.any());
      combines[i] = new LowLatencyCombineOperation(this, records[0]);
    }
    for (int half = 0; half < 2; half++) {
      long address = context.lowLatency(context.rank) + layout.combine(half);
      combineTensors[half] = region(address, Layout.EXPERT_MAJOR);
      combineTensors[2 + half] = region(address, Layout.RANK_MAJOR);
    }
  }

  /** Sets the connection to other nodes. */
  public void connect(@Nullable InternodeLowLatency internode) {
    paths.connect(internode);
    signals.connected();
  }

  private Tensor region(long address, Layout rowOrder) {
    return region(address, shape.groups(rowOrder), shape.capacity(rowOrder), shape.hidden());
  }

  private Tensor region(long address, long groups, long rows, long hidden) {
    long bytes = 2 * groups * rows * hidden;
    return Tensor.of(NativeMemory.view(address, bytes, views), DType.BF16, groups, rows, hidden);
  }

  public LowLatencyDispatch dispatch(
      Layout rowOrder, Tensor x, Routing choices, LowLatencyDispatchOptions options) {
    Arguments.noStream(options.execution().stream());
    int all = experts.number(options.experts());
    int local = experts.local(all);
    LowLatencyChecks.dispatch(
        context.config, shapeOf(local), rowOrder, x, choices, options, HostCallMemory.ANY);
    flights.requirePlace();
    long ordinal = flights.dispatches.next();
    LowLatencyRecord record = records[(int) (ordinal % RECORDS)];
    record.describe(
        rowOrder,
        choices.topkIdx(),
        LowLatencyChecks.weighted(rowOrder, choices, options),
        local,
        experts.ofBuffer(all));
    LowLatencyDispatchOperation op = dispatches[(int) (ordinal % Flights.OBJECTS)];
    LowLatencyFormat format = formats.of((int) x.size(1), options);
    op.prepare(x, choices, record, format, options);
    op.readEarly(options.execution(), true);
    if (outdated != null) {
      outdated.outdateRows((int) (ordinal & 1));
    }
    flights.start(op.flight, flights.dispatches, options.returnHook(), true);
    flights.add(op.flight);
    op.begin(options.returnHook(), options.waitStats(), options.execution());
    return op.result();
  }

  public LowLatencyCombine combine(
      Tensor y, Routing choices, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    Arguments.noStream(options.execution().stream());
    LowLatencyDispatchOperation dispatch = dispatchOf(handle);
    Flights.requireReceived(dispatch.flight);
    LowLatencyRecord record = dispatch.record;
    LowLatencyChecks.combine(
        shapeOf(record.localExperts),
        y,
        choices,
        record.tokens,
        record.topK,
        record.hidden,
        record.layout(),
        combineTensor(dispatch),
        options,
        HostCallMemory.ANY);
    if (outdated != null) {
      outdated.requireOf(dispatch, y);
    }
    flights.requirePlace();
    requireRegion(dispatch);
    long ordinal = flights.combines.next();
    LowLatencyCombineOperation op = combines[(int) (ordinal % Flights.OBJECTS)];
    if (!record.byRanks) {
      op.ensureSlots(shape.tokens() * shape.topK());
    }
    Tensor out = options.out();
    boolean own = out == null;
    int half = (int) (ordinal & 1);
    if (out == null) {
      out = memory.half(half).sumTensor(record.tokens, record.hidden);
    }
    op.prepare(y, choices, dispatch, options, out);
    op.readEarly(options.execution(), record.read);
    if (outdated != null) {
      outdated.outdateSums(half, own ? 2L * record.tokens * record.hidden : 0);
    }
    flights.start(op.flight, flights.combines, options.returnHook(), own);
    flights.add(op.flight);
    op.begin(options.returnHook(), options.waitStats(), options.execution());
    return op;
  }

  /** The region that the combine of {@code handle} reads from with zeroCopy. */
  public Tensor combineBuffer(LowLatencyHandle handle) {
    LowLatencyDispatchOperation dispatch = dispatchOf(handle);
    requireRegion(dispatch);
    try {
      long lastUse = combineSender.lastUse(dispatch.flight.half());
      signals.awaitReceived(lastUse, flights.number(), "low-latency combine buffer");
    } catch (Ep4jException e) {
      entry.failed("low-latency combine buffer: " + e.getMessage(), e);
      throw e;
    }
    combineRows.require(dispatch);
    Tensor largest = combineTensor(dispatch);
    LowLatencyRecord record = dispatch.record;
    long groups = record.byRanks ? shape.ranks() : record.localExperts;
    return record.hidden == shape.hidden() && groups == largest.size(0)
        ? largest
        : region(largest.address(), groups, largest.size(1), record.hidden);
  }

  private OutputShape shapeOf(int local) {
    if (callShape.experts() != local) {
      callShape = shape.withExperts(local);
    }
    return callShape;
  }

  /** Records the end of an operation. */
  void recordEnd(OperationEvent event, String operation, long number) {
    event.ended(context.log, context.rank, operation, number);
    context.log.operationEnded();
  }

  private LowLatencyDispatchOperation dispatchOf(LowLatencyHandle handle) {
    return (LowLatencyDispatchOperation) flights.dispatchOf(handle);
  }

  private Tensor combineTensor(LowLatencyDispatchOperation dispatch) {
    int half = dispatch.flight.half();
    return combineTensors[dispatch.record.byRanks ? 2 + half : half];
  }

  /** Masks or admits one rank. */
  public void updateMask(int rank, boolean masked) {
    LowLatencyChecks.maskedRank(rank, context.rank, context.ranks, context.excluded);
    if (masked) {
      signals.mask(rank, "by updateMask()");
    } else {
      signals.admit(rank, "by updateMask()");
      catchUp();
    }
  }

  /**
   * Admits all ranks that are not excluded or, with masking, lost or closed. If other ranks have
   * masked this rank, it continues with their number; no operation may be in flight then.
   */
  public void cleanMask() {
    for (int r = 0; r < context.ranks; r++) {
      boolean gone = context.excluded[r] || (Limits.masking(context.config) && signals.isGone(r));
      if (gone) {
        signals.mask(r, "is excluded or gone");
      } else {
        signals.admit(r, "by cleanMask()");
      }
    }
    catchUp();
  }

  /** Number of the last begun operation. */
  public long number() {
    return flights.number();
  }

  /**
   * Discards the operations in flight and all results, masks newly excluded ranks, and continues
   * with the next number. Called between two barriers of the live ranks.
   *
   * @param highest the highest number that a live rank has begun
   */
  public void reset(long highest) {
    for (int r = 0; r < context.ranks; r++) {
      if (context.excluded[r]) {
        signals.mask(r, "is excluded by a reset");
      }
    }
    flights.reset(highest);
    signals.start(highest);
    signals.received(highest);
  }

  /** Continues in new memory of this node; called before {@link #reset}. */
  public void renewed() {
    signals.renewed();
    combineRows.forget();
  }

  /** Counts a rank that rejoins; called before {@link #reset}. */
  public void takeIn(int rank) {
    signals.takeIn(rank);
  }

  /** Called when all ranks are at one number and each rank knows which ranks have masked it. */
  public void agreed() {
    signals.lookAtMasks();
  }

  /** Counters of the operations so far. */
  public LowLatencyCounters counters() {
    return counters;
  }

  /** Bytes of memory private to this rank. */
  public long privateBytes() {
    return memory.bytes();
  }

  @Override
  public void close() {
    memory.close();
  }

  /** Called when a dispatch has been received. */
  void received(LowLatencyDispatchOperation op) {
    if (outdated != null) {
      outdated.received(op);
    }
  }

  /**
   * The reader of routings in calls or, for operations that read late, of the thread that runs
   * them: both may read at the same time.
   */
  LowLatencyRouting routing(boolean late) {
    return late ? lateRouting : routing;
  }

  Flights flights() {
    return flights;
  }

  LowLatencyEntry entry() {
    return entry;
  }

  LowLatencyDispatchSender dispatchSender() {
    return dispatchSender;
  }

  LowLatencyDispatchReceiver dispatchReceiver() {
    return dispatchReceiver;
  }

  LowLatencyCombineSender combineSender() {
    return combineSender;
  }

  LowLatencyCombineReceiver combineReceiver() {
    return combineReceiver;
  }

  /** Refuses access to the combine region of a dispatch while peers may read it. */
  private void requireRegion(LowLatencyDispatchOperation dispatch) {
    for (LowLatencyCombineOperation combine : combines) {
      if (combine.half == dispatch.flight.half() && combine.flight.awaitsHook()) {
        throw new IllegalUseException(
            ErrorCode.COMBINE_REGION_IN_USE,
            "the rows of "
                + combine.flight
                + " are still in the combine region of this handle: call its hook first");
      }
    }
  }

  /** Continues with the highest number of all ranks. */
  private void catchUp() {
    long highest = signals.highestStartedWithout();
    if (highest > number()) {
      flights.catchUp(highest, number());
      signals.start(highest);
      signals.received(highest);
    }
    // Last: a refused caller tries again.
    signals.caughtUp();
  }
}
