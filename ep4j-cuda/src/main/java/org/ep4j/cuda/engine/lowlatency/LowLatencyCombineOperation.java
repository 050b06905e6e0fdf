package org.ep4j.cuda.engine.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A low-latency combine: its arguments, its result and its hook. */
final class LowLatencyCombineOperation extends LowLatencyOperation implements LowLatencyCombine {
  private final LowLatency owner;
  private final CudaContext context;
  private final LowLatencyKernels kernels;
  private final LowLatencyMemory memory;

  private boolean rankMajor;
  private boolean logFmt;
  private boolean partialRounding;
  private boolean byExperts;
  private int record;
  private long dispatchCall;
  private int topK;
  private int hidden;
  private boolean wideIds;
  private long y;
  private long ids;
  private long weights;
  private boolean wideOrderIds;
  private long orderIds;

  /** Output of the sums on the device. */
  private @Nullable Tensor sums;

  /** The caller's output. */
  private @Nullable Tensor out;

  LowLatencyCombineOperation(
      LowLatency owner, CudaContext context, LowLatencyKernels kernels, LowLatencyMemory memory) {
    super(owner, owner.flights().combines);
    this.owner = owner;
    this.context = context;
    this.kernels = kernels;
    this.memory = memory;
  }

  /** Stores the arguments; copies host tensors to the device in the order of {@code stream}. */
  void prepare(
      long ordinal,
      Tensor given,
      Routing routing,
      LowLatencyDispatchOperation dispatch,
      LowLatencyCombineOptions options,
      CudaStream stream) {
    rankMajor = dispatch.layout() == Layout.RANK_MAJOR;
    logFmt = options.logFmt();
    byExperts = options.order() == CombineOrder.EXPERT;
    partialRounding = options.partialRounding();
    record = dispatch.record();
    dispatchCall = dispatch.call;
    tokens = dispatch.tokens;
    topK = dispatch.topK();
    hidden = dispatch.hidden();
    y = context.staging.address(Staging.Buffer.Y, given, stream);
    if (!rankMajor) {
      wideIds =
          routing.topkIdx().dtype() == DType.INT64
              || !context.experts.isOfBuffer(dispatch.experts());
      ids = owner.expertIds(routing.topkIdx(), dispatch.experts(), stream);
      Tensor factors = requireNonNull(routing.topkWeights());
      weights = context.staging.address(owner.weightsBuffer(), factors, stream);
    }
    if (byExperts) {
      Tensor logical = routing.logicalIdx();
      wideOrderIds = (logical == null ? routing.topkIdx() : logical).dtype() == DType.INT64;
      orderIds = owner.orderIds(routing, stream);
    }
    out = options.out();
    sums =
        out != null && out.onDevice()
            ? out
            : memory.half((int) (ordinal & 1)).sumTensor(tokens, hidden);
  }

  @Override
  KernelCall<LowLatencyParameters> call() {
    return rankMajor
        ? kernels.combineRankMajor(hidden)
        : kernels.combine(hidden, logFmt, partialRounding);
  }

  @Override
  int sharedBytes() {
    return kernels.combineBytes;
  }

  @Override
  void prepareSend(LowLatencyParameters p) {
    p.kind.set(0);
    p.tokens.set(tokens);
    p.topK.set(topK);
    p.ids.set(rankMajor ? 0 : ids);
    p.wideIds.set(wideIds);
    p.weights.set(rankMajor ? 0 : weights);
    p.orderIds.set(byExperts ? orderIds : 0);
    p.wideOrderIds.set(wideOrderIds);
    p.x.set(y);
    p.hidden.set(hidden);
    p.choiceRows.set(memory.choiceRows(record));
    p.batches.set(memory.batches(record));
    p.choices.set(memory.choices(record));
    p.out.set(requireNonNull(sums).address());
    p.waits.setNull();
  }

  @Override
  void prepareReceive(LowLatencyParameters p, CudaStream stream) {
    p.waits.set(context.staging.address(Staging.Buffer.WAIT_STATS, waitStats, stream));
  }

  @Override
  void count() {
    owner.combines++;
  }

  @Override
  void describe(Operation description) {
    description
        .begin(OperationLayout.LOW_LATENCY_COMBINE)
        .set(OperationLayout.LOG_FMT, logFmt)
        .set(OperationLayout.PARTIAL_ROUNDING, partialRounding)
        .set(OperationLayout.HANDLE, dispatchCall)
        .set(OperationLayout.HIDDEN, hidden);
  }

  @Override
  boolean endsOnHost() {
    return LowLatencyDispatchOperation.onHost(out) || LowLatencyDispatchOperation.onHost(waitStats);
  }

  @Override
  void toHost() {
    context.staging.back(Staging.Buffer.WAIT_STATS, waitStats);
    Tensor target = out;
    if (target != null && !target.onDevice() && target.byteSize() > 0) {
      DeviceCopies.toHost(context.device, target.segment(), requireNonNull(sums).address());
    }
  }

  @Override
  public Tensor x() {
    flight.requireResults();
    Tensor result = out == null ? sums : out;
    if (result == null) {
      throw new IllegalStateException(flight + " was never started");
    }
    return result;
  }

  @Override
  public ReceiveHook hook() {
    return flight.hook();
  }
}
