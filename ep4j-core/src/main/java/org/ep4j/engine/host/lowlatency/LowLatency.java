package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import java.lang.foreign.Arena;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.Ep4jException;
import org.ep4j.ErrorCode;
import org.ep4j.Execution;
import org.ep4j.IllegalUseException;
import org.ep4j.Layout;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.LowLatencyFormat;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Low-latency dispatch and combine of one rank: numbers the operations, limits them to two in
 * flight, and rotates their results. {@link LowLatencyLayout} is the protocol between ranks.
 *
 * <p>Used by one thread at a time; the operations of asynchronous calls run on the thread of {@link
 * LowLatencyEntry#later}, in order.
 */
public final class LowLatency implements AutoCloseable {
  /** Number of objects of each kind, used in rotation. */
  private static final int OBJECTS = 16;

  private static final int RECORDS = 3;

  private final HostContext context;
  private final BufferConfig config;
  private final LowLatencyEntry entry;
  private final LowLatencyMemory memory;

  /** Null unless the buffer is in debug mode. */
  private final @Nullable OutdatedResults outdated;

  private final LowLatencyPaths paths;
  private final LowLatencySignals signals;
  private final LowLatencyRouting routing;
  private final LowLatencyDispatchSender dispatchSender;
  private final LowLatencyDispatchReceiver dispatchReceiver;
  private final LowLatencyCombineSender combineSender;
  private final LowLatencyCombineReceiver combineReceiver;
  private final LowLatencyCounters counters = new LowLatencyCounters();
  private final LowLatencyFormat[] formats;
  private final LowLatencyRecord[] records = new LowLatencyRecord[RECORDS];
  private final LowLatencyDispatchOperation[] dispatches = new LowLatencyDispatchOperation[OBJECTS];
  private final LowLatencyDispatchOperation[] dispatchesByRank =
      new LowLatencyDispatchOperation[OBJECTS];
  private final LowLatencyCombineOperation[] combines = new LowLatencyCombineOperation[OBJECTS];

  /** The combine regions with rows by experts, then with rows by ranks. */
  private final Tensor[] combineTensors = new Tensor[4];

  /** The last operation of each parity. */
  private final LowLatencyOperation[] last = new LowLatencyOperation[2];

  /** Number of the last operation. */
  private long number;

  /**
   * Numbers of begun dispatches and combines, and the last ones whose results a reset discarded.
   */
  private long dispatchCount;

  private long combineCount;
  private long resetDispatch;
  private long resetCombine;

  /**
   * @param views arena of the tensors for callers; the owner closes it before this object
   */
  public LowLatency(
      HostContext context,
      LowLatencyLayout layout,
      ExpertTable experts,
      LowLatencyEntry entry,
      Arena views) {
    this.context = context;
    this.config = context.config;
    this.entry = entry;
    int ranks = context.ranks;
    int local = context.placement.localExperts(context.rank);
    int maxTokens = Limits.lowLatencyTokens(config);
    int hidden = config.hidden();
    RowKernels kernels = RowKernels.get();
    memory = new LowLatencyMemory(config, ranks, local, views);
    outdated = context.debug ? new OutdatedResults(memory, hidden) : null;
    paths = new LowLatencyPaths(context, layout);
    signals = new LowLatencySignals(context, layout, paths);
    routing = new LowLatencyRouting(config.experts());
    dispatchSender =
        new LowLatencyDispatchSender(context, paths, signals, memory, experts, kernels, counters);
    dispatchReceiver =
        new LowLatencyDispatchReceiver(context, layout, paths, signals, memory, kernels, counters);
    combineSender = new LowLatencyCombineSender(context, layout, paths, signals, memory, kernels);
    combineReceiver =
        new LowLatencyCombineReceiver(context, layout, paths, signals, memory, experts, kernels);
    formats = LowLatencyFormat.all(hidden);
    for (int i = 0; i < RECORDS; i++) {
      records[i] = new LowLatencyRecord(ranks, maxTokens, config.topK(), local);
    }
    for (int i = 0; i < OBJECTS; i++) {
      dispatches[i] = new LowLatencyDispatchOperation(this, memory, records[0], formats[0]);
      dispatchesByRank[i] =
          new LowLatencyDispatchOperation.ByRank(this, memory, records[0], formats[0]);
      combines[i] = new LowLatencyCombineOperation(this, records[0]);
    }
    last[0] = dispatches[0];
    last[1] = dispatches[0];
    for (int half = 0; half < 2; half++) {
      long address = context.lowLatency(context.rank) + layout.combine(half);
      combineTensors[half] = region(address, local, memory.rowsPerExpert(), views);
      combineTensors[2 + half] = region(address, ranks, maxTokens, views);
    }
  }

  /** Sets the connection to other nodes. */
  public void connect(@Nullable InternodeLowLatency internode) {
    paths.connect(internode);
    signals.connected();
  }

  private Tensor region(long address, long groups, long rows, Arena views) {
    long bytes = 2 * groups * rows * config.hidden();
    return Tensor.of(
        NativeMemory.view(address, bytes, views), DType.BF16, groups, rows, config.hidden());
  }

  public LowLatencyDispatch dispatch(
      Layout rowOrder, Tensor x, Routing choices, LowLatencyDispatchOptions options) {
    LowLatencyArguments.dispatch(context, rowOrder, x, choices, options);
    requirePlace();
    if (outdated != null) {
      outdated.outdateRows((int) (dispatchCount + 1 & 1));
    }
    LowLatencyRecord record = records[(int) ((dispatchCount + 1) % RECORDS)];
    routing.read(choices.topkIdx(), record);
    LowLatencyRouting.readLayout(rowOrder, choices.topkWeights(), record);
    dispatchCount++;
    LowLatencyDispatchOperation op =
        (rowOrder == Layout.RANK_MAJOR ? dispatchesByRank : dispatches)
            [(int) (dispatchCount % OBJECTS)];
    LowLatencyFormat format =
        formats[LowLatencyFormat.index(options.format(), options.scaleKind())];
    op.prepare(dispatchCount, x, record, format, options);
    begin(op, options.returnHook(), options.waitStats(), options.execution());
    return op;
  }

  public LowLatencyCombine combine(
      Tensor y, Routing choices, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    LowLatencyDispatchOperation dispatch = current(handle);
    if (dispatch.awaitsHook()) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED,
          dispatch.name() + " has not been received: call its hook before its combine");
    }
    LowLatencyRecord record = dispatch.record;
    Tensor region = combineTensor(dispatch);
    LowLatencyArguments.combine(context, y, choices, record, region, options);
    if (outdated != null) {
      outdated.requireOf(dispatch, y);
    }
    requirePlace();
    requireRegion(dispatch);
    LowLatencyCombineOperation op = combines[(int) ((combineCount + 1) % OBJECTS)];
    if (!record.byRanks) {
      op.ensureSlots(Limits.lowLatencyTokens(config) * config.topK());
      Tensor weights = requireNonNull(choices.topkWeights());
      LowLatencyRouting.readAgain(choices.topkIdx(), weights, record, op.kept, op.weights);
    }
    combineCount++;
    Tensor out = options.out();
    int half = (int) (combineCount & 1);
    if (outdated != null) {
      outdated.outdateSums(half, out == null ? record.tokens : 0);
    }
    if (out == null) {
      out = memory.sumTensor(half, record.tokens);
    }
    op.prepare(combineCount, y, dispatch, options, out);
    begin(op, options.returnHook(), options.waitStats(), options.execution());
    return op;
  }

  /** The region that the combine of {@code handle} reads from with zeroCopy. */
  public Tensor combineBuffer(LowLatencyHandle handle) {
    LowLatencyDispatchOperation dispatch = current(handle);
    requireRegion(dispatch);
    try {
      long lastUse = combineSender.lastUse(dispatch.half());
      signals.awaitReceived(lastUse, number, "low-latency combine buffer");
    } catch (Ep4jException e) {
      entry.failed("low-latency combine buffer: " + e.getMessage(), e);
      throw e;
    }
    return combineTensor(dispatch);
  }

  private Tensor combineTensor(LowLatencyDispatchOperation dispatch) {
    return combineTensors[dispatch.record.byRanks ? 2 + dispatch.half() : dispatch.half()];
  }

  /** Masks or admits one rank. */
  public void updateMask(int rank, boolean masked) {
    LowLatencyArguments.maskedRank(context, rank);
    if (masked) {
      signals.mask(rank);
    } else {
      signals.admit(rank);
      catchUp();
    }
  }

  /**
   * Admits all ranks that are not excluded or, with masking, dead. If other ranks have masked this
   * rank, it continues with their number; no operation may be in flight then.
   */
  public void cleanMask() {
    for (int r = 0; r < context.ranks; r++) {
      boolean gone = context.excluded[r] || (Limits.masking(config) && !context.members.isAlive(r));
      if (gone) {
        signals.mask(r);
      } else {
        signals.admit(r);
      }
    }
    catchUp();
  }

  /** Number of the last begun operation. */
  public long number() {
    return number;
  }

  /**
   * Discards the operations in flight and all results, masks newly excluded ranks, and continues
   * with the next number. Called between two barriers of the live ranks.
   *
   * @param highest the highest number that a live rank has begun
   */
  public void reset(long highest) {
    last[0].drop();
    last[1].drop();
    resetDispatch = dispatchCount;
    resetCombine = combineCount;
    for (int r = 0; r < context.ranks; r++) {
      if (context.excluded[r]) {
        signals.mask(r);
      }
    }
    number = highest;
    signals.start(highest);
    signals.received(highest);
  }

  /** Continues in new memory of this node; called before {@link #reset}. */
  public void renewed() {
    signals.renewed();
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

  /**
   * Receives {@code op} after the operation sent before it: all ranks receive in the same order.
   */
  void receiveUpTo(LowLatencyOperation op) {
    LowLatencyOperation other = last[(int) (op.number + 1 & 1)];
    if (other.number < op.number) {
      other.receiveNow();
    }
    op.receiveNow();
  }

  boolean isOutdated(LowLatencyDispatchOperation op) {
    return op.ordinal <= resetDispatch || dispatchCount - op.ordinal >= 2;
  }

  boolean isOutdated(LowLatencyCombineOperation op) {
    return op.ordinal <= resetCombine || combineCount - op.ordinal >= 2;
  }

  private void begin(
      LowLatencyOperation op, boolean hooked, @Nullable Tensor waitStats, Execution execution) {
    number++;
    op.start(number, hooked, waitStats, execution.previousEvent());
    last[(int) (number & 1)] = op;
    if (execution.isAsync()) {
      op.runsAsync(entry.later(op));
    } else {
      op.run();
    }
  }

  /** Refuses a third operation in flight; waits if the earlier one is asynchronous. */
  private void requirePlace() {
    LowLatencyOperation before = last[(int) (number + 1 & 1)];
    before.awaitRun();
    if (before.awaitsHook()) {
      throw new IllegalUseException(
          ErrorCode.TOO_MANY_IN_FLIGHT,
          "a third low-latency operation would be in flight: call the hook of "
              + before.name()
              + " first");
    }
  }

  /** Refuses access to the combine region of a dispatch while peers may read it. */
  private void requireRegion(LowLatencyDispatchOperation dispatch) {
    for (LowLatencyOperation op : last) {
      if (op instanceof LowLatencyCombineOperation combine
          && combine.half == dispatch.half()
          && combine.awaitsHook()) {
        throw new IllegalUseException(
            ErrorCode.COMBINE_REGION_IN_USE,
            "the rows of "
                + combine.name()
                + " are still in the combine region of this handle: call its hook first");
      }
    }
  }

  private LowLatencyDispatchOperation current(LowLatencyHandle handle) {
    if (!(handle instanceof LowLatencyDispatchOperation dispatch) || !dispatch.isOf(this)) {
      throw Arguments.invalid(
          ErrorCode.WRONG_HANDLE,
          "handle",
          handle,
          "a handle of a lowLatencyDispatch of this buffer",
          "pass the handle of the dispatch");
    }
    dispatch.requireCurrent();
    return dispatch;
  }

  /** Continues with the highest number of all ranks. */
  private void catchUp() {
    long highest = signals.highestStartedWithout();
    if (highest > number) {
      requireNothingInFlight(highest);
      number = highest;
      signals.start(highest);
      signals.received(highest);
    }
    // Last: a refused caller tries again.
    signals.caughtUp();
  }

  private void requireNothingInFlight(long highest) {
    for (LowLatencyOperation op : last) {
      if (op.awaitsHook()) {
        throw new IllegalUseException(
            ErrorCode.HOOK_NOT_CALLED,
            "other ranks are at low-latency operation "
                + highest
                + ", this one at "
                + number
                + " with "
                + op.name()
                + " in flight: call its hook before ranks are admitted");
      }
    }
  }
}
