package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.LowLatencyKind;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.lowlatency.Flight;
import org.ep4j.engine.lowlatency.LowLatencyChecks;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyResult;
import org.ep4j.engine.lowlatency.LowLatencyViews;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A low-latency dispatch: its arguments, and what its result shows. */
final class LowLatencyDispatchOperation extends LowLatencyOperation
    implements LowLatencyResult.Dispatched {
  private final LowLatency owner;
  private final CudaContext context;
  private final LowLatencyKernels kernels;
  private final LowLatencyMemory memory;

  private final LowLatencyResult byExpert = LowLatencyResult.of(Layout.EXPERT_MAJOR, this);
  private final LowLatencyResult byRank = LowLatencyResult.of(Layout.RANK_MAJOR, this);

  private int topK;

  /** Experts of the call, and those of this rank. */
  private int experts;

  private int localExperts;

  /** Groups of rows: by expert, or by source rank. */
  private Layout layout = Layout.EXPERT_MAJOR;

  private LowLatencyFormat format;
  private boolean wideIds;
  private long x;
  private long ids;

  /** Address of the weights if weights are dispatched; else 0. */
  private long weights;

  private boolean weighted;

  /** Address of the factor of NVFP4 rows; 0: 1. */
  private long globalScale;

  private ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
  private @Nullable Tensor cumulativeStats;

  LowLatencyDispatchOperation(
      LowLatency owner,
      CudaContext context,
      LowLatencyKernels kernels,
      LowLatencyMemory memory,
      LowLatencyFormat format) {
    super(owner, owner.flights().dispatches);
    this.owner = owner;
    this.context = context;
    this.kernels = kernels;
    this.memory = memory;
    this.format = format;
  }

  /** Stores the arguments; copies host tensors to the device in the order of {@code stream}. */
  void prepare(
      long ordinal,
      Layout rowOrder,
      Tensor rows,
      Routing routing,
      LowLatencyFormat wanted,
      LowLatencyDispatchOptions options,
      CudaStream stream,
      boolean capturing) {
    format = wanted;
    layout = rowOrder;
    memory.half((int) (ordinal & 1)).makeRoom(layout, wanted);
    tokens = Math.toIntExact(rows.size(0));
    topK = Math.toIntExact(routing.topkIdx().size(1));
    wideIds = routing.topkIdx().dtype() == DType.INT64;
    x = context.staging.address(Staging.Buffer.X, rows, stream);
    experts = context.experts.number(options.experts());
    localExperts = context.experts.local(experts);
    ids = owner.expertIds(routing.topkIdx(), experts, stream);
    wideIds |= !context.experts.isOfBuffer(experts);
    Tensor given = routing.topkWeights();
    weighted = LowLatencyChecks.weighted(layout, routing, options);
    weights = weighted ? context.staging.address(owner.weightsBuffer(), given, stream) : 0;
    Tensor factor = options.globalScale();
    if (factor != null && !factor.onDevice()) {
      LowLatencyChecks.factor(factor.getFloat(0));
    }
    globalScale = context.staging.address(Staging.Buffer.FACTORS, factor, stream);
    scaleLayout = options.scaleLayout();
    cumulativeStats = options.cumulativeStats();
  }

  /** The outputs of this dispatch. */
  LowLatencyMemory.Half out() {
    return memory.half(flight.half());
  }

  LowLatencyDispatch result() {
    return layout == Layout.RANK_MAJOR ? byRank : byExpert;
  }

  Layout layout() {
    return layout;
  }

  int experts() {
    return experts;
  }

  int localExperts() {
    return localExperts;
  }

  /** Elements of a row. */
  int hidden() {
    return format.hidden();
  }

  /** Record of this dispatch. */
  int record() {
    return (int) (flight.ordinal() % LowLatencyMemoryLayout.RECORDS);
  }

  @Override
  KernelCall<LowLatencyParameters> call() {
    return kernels.dispatch(
        format.hidden(), format.format(), layout == Layout.RANK_MAJOR, weighted);
  }

  @Override
  int sharedBytes() {
    return kernels.dispatchBytes;
  }

  @Override
  void prepareSend(LowLatencyParameters p) {
    LowLatencyMemory.Half out = out();
    p.kind.set(LowLatencyKind.of(format, layout == Layout.RANK_MAJOR, weighted));
    p.tokens.set(tokens);
    p.topK.set(topK);
    p.ids.set(ids);
    p.wideIds.set(wideIds);
    p.weights.set(weights);
    p.x.set(x);
    p.hidden.set(format.hidden());
    p.rowBytes.set(format.rowBytes());
    p.scaleBytes.set(format.scaleBytes());
    p.scaleKind.set(format.scaleKind().ordinal());
    p.globalScale.set(globalScale);
    p.choiceRows.set(memory.choiceRows(record()));
    p.batches.set(memory.batches(record()));
    p.choices.set(memory.choices(record()));
    p.rows.set(out.rows());
    long capacity = memory.shape().capacity(layout);
    p.scales.set(out.scales(format, memory.shape().groups(layout) * capacity));
    p.scaleColumns.set(scaleLayout == ScaleLayout.COLUMN_MAJOR ? format.columnLength(capacity) : 0);
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
  void prepareReceive(LowLatencyParameters p, CudaStream stream) {
    Staging staging = context.staging;
    p.cumulative.set(staging.address(Staging.Buffer.CUMULATIVE_STATS, cumulativeStats, stream));
    p.waits.set(staging.address(Staging.Buffer.WAIT_STATS, waitStats, stream));
  }

  @Override
  void count() {
    owner.dispatches++;
  }

  @Override
  void describe(Operation description) {
    description
        .begin(OperationLayout.LOW_LATENCY_DISPATCH)
        .set(
            OperationLayout.ROW_FORMAT,
            OperationLayout.rowFormat(format.format(), format.scaleKind()))
        .set(OperationLayout.HIDDEN, format.hidden())
        .set(OperationLayout.EXPERTS, experts);
  }

  @Override
  boolean endsOnHost() {
    return onHost(cumulativeStats) || onHost(waitStats);
  }

  static boolean onHost(@Nullable Tensor tensor) {
    return tensor != null && !tensor.onDevice();
  }

  @Override
  void toHost() {
    context.staging.back(Staging.Buffer.CUMULATIVE_STATS, cumulativeStats);
    context.staging.back(Staging.Buffer.WAIT_STATS, waitStats);
  }

  @Override
  public Flight flight() {
    return flight;
  }

  @Override
  public LowLatencyViews views() {
    return out().outputViews.of(layout, localExperts);
  }

  @Override
  public LowLatencyFormat format() {
    return format;
  }

  @Override
  public ScaleLayout scaleLayout() {
    return scaleLayout;
  }

  @Override
  public int topK() {
    return topK;
  }

  @Override
  public boolean weighted() {
    return weighted;
  }
}
