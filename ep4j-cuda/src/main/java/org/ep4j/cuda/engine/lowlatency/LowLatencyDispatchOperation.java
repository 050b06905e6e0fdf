package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.DType;
import org.ep4j.Event;
import org.ep4j.Layout;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.RankMajorDispatch;
import org.ep4j.ReceiveHook;
import org.ep4j.Routing;
import org.ep4j.RowFormat;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.LowLatencyFormat;
import org.ep4j.cuda.engine.launch.LowLatencyKind;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.jspecify.annotations.Nullable;

/** A low-latency dispatch: its arguments, its result, its handle and its hook. */
class LowLatencyDispatchOperation extends LowLatencyOperation
    implements LowLatencyDispatch, LowLatencyHandle {
  private final LowLatency owner;
  private final CudaContext context;
  private final LowLatencyKernels kernels;
  private final LowLatencyMemory memory;

  /** Number among the dispatches. */
  long ordinal;

  int topK;

  /** Whether rows are grouped by source rank. */
  boolean rankMajor;

  private LowLatencyFormat format;
  private boolean wideIds;
  private long x;
  private long ids;

  /** Address of the weights by rank if weights are dispatched; else 0. */
  private long weights;

  private boolean weighted;
  private LowLatencyViews results;
  private float globalScale;
  private boolean scalesByColumns;
  private @Nullable Tensor cumulativeStats;

  LowLatencyDispatchOperation(
      LowLatency owner,
      CudaContext context,
      LowLatencyKernels kernels,
      LowLatencyMemory memory,
      LowLatencyFormat format) {
    super(owner, "low-latency dispatch");
    this.owner = owner;
    this.context = context;
    this.kernels = kernels;
    this.memory = memory;
    this.format = format;
    results = memory.half(0).views(false);
  }

  /** Stores the arguments; copies host tensors to the device in the order of {@code stream}. */
  void prepare(
      long number,
      Layout layout,
      Tensor rows,
      Routing routing,
      LowLatencyFormat wanted,
      LowLatencyDispatchOptions options,
      CudaStream stream,
      boolean capturing) {
    format = wanted;
    rankMajor = layout == Layout.RANK_MAJOR;
    LowLatencyMemory.Half out = memory.half((int) (number & 1));
    results = out.views(rankMajor);
    out.makeRoom(results.bytes(wanted), capturing);
    ordinal = number;
    tokens = Math.toIntExact(rows.size(0));
    topK = Math.toIntExact(routing.topkIdx().size(1));
    wideIds = routing.topkIdx().dtype() == DType.INT64;
    x = context.staging.address(Staging.Buffer.X, rows, stream);
    ids = context.staging.address(owner.idsBuffer(), routing.topkIdx(), stream);
    Tensor given = routing.topkWeights();
    weighted = rankMajor && given != null;
    weights = weighted ? context.staging.address(owner.weightsBuffer(), given, stream) : 0;
    globalScale = options.globalScale();
    scalesByColumns = options.scaleLayout() == ScaleLayout.COLUMN_MAJOR;
    cumulativeStats = options.cumulativeStats();
  }

  /** Half of the outputs of this dispatch. */
  int half() {
    return (int) (ordinal & 1);
  }

  final boolean weighted() {
    return weighted;
  }

  /** Results in the layout of this dispatch. */
  LowLatencyViews results() {
    return results;
  }

  /** Record of this dispatch. */
  int record() {
    return (int) (ordinal % LowLatencyMemory.RECORDS);
  }

  boolean isOf(LowLatency buffer) {
    return owner == buffer;
  }

  @Override
  final KernelCall<LowLatencyParameters> call() {
    return kernels.dispatch(format.format(), rankMajor);
  }

  @Override
  final int sharedBytes() {
    return kernels.dispatchBytes;
  }

  @Override
  final void prepareSend(LowLatencyParameters p) {
    LowLatencyMemory.Half out = memory.half(half());
    p.kind.set(LowLatencyKind.of(format, rankMajor, weighted));
    p.tokens.set(tokens);
    p.topK.set(topK);
    p.ids.set(ids);
    p.wideIds.set(wideIds);
    p.weights.set(weights);
    p.x.set(x);
    p.rowBytes.set(format.rowBytes());
    p.scaleBytes.set(format.scaleBytes());
    p.scaleKind.set(format.scaleKind().ordinal());
    p.globalScale.set(Float.floatToRawIntBits(globalScale));
    p.choiceRows.set(memory.choiceRows(record()));
    p.batches.set(memory.batches(record()));
    p.choices.set(memory.choices(record()));
    p.rows.set(out.rows());
    p.scales.set(out.rows() + results.scalesOffset(format));
    p.scaleColumns.set(scalesByColumns ? format.columnLength(results.capacity) : 0);
    p.sourceTokens.set(out.sourceTokens());
    p.rowChoices.set(out.rowChoices());
    p.rowWeights.set(out.rowWeights());
    p.ranges.set(out.ranges());
    p.rowCounts.set(out.rowCounts());
    p.cumulative.setNull();
    p.out.setNull();
    p.waits.setNull();
  }

  @Override
  final void prepareReceive(LowLatencyParameters p, CudaStream stream) {
    Staging staging = context.staging;
    p.cumulative.set(staging.address(Staging.Buffer.CUMULATIVE_STATS, cumulativeStats, stream));
    p.waits.set(staging.address(Staging.Buffer.WAIT_STATS, waitStats, stream));
  }

  @Override
  final void count() {
    owner.dispatches++;
  }

  @Override
  final void describe(Operation description) {
    description
        .begin(OperationLayout.LOW_LATENCY_DISPATCH)
        .set(
            OperationLayout.ROW_FORMAT,
            OperationLayout.rowFormat(format.format(), format.scaleKind()));
  }

  @Override
  final boolean endsOnHost() {
    return onHost(cumulativeStats) || onHost(waitStats);
  }

  static boolean onHost(@Nullable Tensor tensor) {
    return tensor != null && !tensor.onDevice();
  }

  @Override
  final void toHost() {
    context.staging.back(Staging.Buffer.CUMULATIVE_STATS, cumulativeStats);
    context.staging.back(Staging.Buffer.WAIT_STATS, waitStats);
  }

  @Override
  final boolean outdated() {
    return owner.isOutdated(this);
  }

  @Override
  public final Tensor x() {
    requireResults();
    return results.rows(format);
  }

  @Override
  public final boolean hasScales() {
    requireResults();
    return format.format() != RowFormat.BF16;
  }

  @Override
  public final Tensor scales() {
    requireResults();
    Tensor scales = scalesByColumns ? results.scaleColumns(format) : results.scales(format);
    if (scales == null) {
      throw Arguments.missing("scales", "the rows are BF16");
    }
    return scales;
  }

  @Override
  public final Tensor counts() {
    requireResults();
    return results.receiveCount();
  }

  @Override
  public final Tensor srcInfo() {
    requireResults();
    return results.sourceInfo();
  }

  @Override
  public final Tensor layoutRange() {
    requireResults();
    return results.layoutRange();
  }

  @Override
  public final LowLatencyHandle handle() {
    return this;
  }

  @Override
  public final ReceiveHook hook() {
    return ownHook();
  }

  @Override
  public final Event event() {
    return ownEvent();
  }

  /** A dispatch with RANK_MAJOR rows. */
  static final class ByRank extends LowLatencyDispatchOperation implements RankMajorDispatch {
    ByRank(
        LowLatency owner,
        CudaContext context,
        LowLatencyKernels kernels,
        LowLatencyMemory memory,
        LowLatencyFormat format) {
      super(owner, context, kernels, memory, format);
    }

    @Override
    public Tensor topkIdx() {
      requireResults();
      return results().choices(topK);
    }

    @Override
    public boolean hasWeights() {
      requireResults();
      return weighted();
    }

    @Override
    public Tensor topkWeights() {
      requireResults();
      if (!weighted()) {
        throw Arguments.missing("topkWeights", "the routing of the dispatch had none");
      }
      return results().choiceWeights(topK);
    }
  }
}
