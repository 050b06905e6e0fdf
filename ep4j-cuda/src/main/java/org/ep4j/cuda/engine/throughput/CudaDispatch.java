package org.ep4j.cuda.engine.throughput;

import org.ep4j.DType;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.Layout;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.DeviceView;
import org.ep4j.cuda.engine.context.HostView;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.Staging;
import org.jspecify.annotations.Nullable;

/**
 * The result of the last dispatch of a buffer. Rows and row metadata are views of the device's
 * receive region; counts are page-locked host memory that kernels may read too. One object per
 * buffer.
 */
final class CudaDispatch implements Dispatch {
  private final CudaContext context;
  private final RegionLayout.Arrays at;
  private final int localExperts;

  private final DeviceView x;
  private final DeviceView scales;
  private final DeviceView globalScales;
  private final DeviceView topkIdx;
  private final DeviceView topkWeights;
  private final DeviceView sourceTokens;
  private final DeviceView sourceRanks;
  private final DeviceView combineInput;
  private final HostView tokensPerExpert = new HostView();
  private final HostView receivedPerExpert = new HostView();
  private final HostView expertOffsets = new HostView();
  private final HostView rankOffsets = new HostView();

  private @Nullable CudaHandle handle;
  private @Nullable Tokens sent;
  private boolean cached;

  /** Whether the caller has the handle, or had it before a cached dispatch, and closes it. */
  private boolean handedOut;

  private Event event = Event.completed();

  /** Whether results are ready in the order of the caller's stream instead of on return. */
  private boolean inStreamOrder;

  CudaDispatch(CudaContext context) {
    this.context = context;
    this.at = context.layout.received;
    localExperts = context.placement.localExperts(context.rank);
    int device = context.device.ordinal();
    x = new DeviceView(device);
    scales = new DeviceView(device);
    globalScales = new DeviceView(device);
    topkIdx = new DeviceView(device);
    topkWeights = new DeviceView(device);
    sourceTokens = new DeviceView(device);
    sourceRanks = new DeviceView(device);
    combineInput = new DeviceView(device);
  }

  /**
   * Describes an enqueued operation. The caller owns the previous handle if it was requested;
   * otherwise the handle is unreachable and is recycled, as after a failed dispatch. The graph owns
   * the handle of a captured dispatch.
   */
  void enqueued(CudaHandle routes, Tokens tokens, boolean again, Event end, boolean callersStream) {
    CudaHandle before = handle;
    if (before != null && !handedOut && !before.captured) {
      before.close();
    }
    handle = routes;
    handedOut = again;
    sent = tokens;
    cached = again;
    event = end;
    inStreamOrder = callersStream;
  }

  /** The handle after the host-visible counts have arrived. */
  private CudaHandle arrived() {
    CudaHandle delivered = handle;
    if (delivered == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the dispatch has failed: read the error from its event");
    }
    if (!inStreamOrder) {
      event.await();
    } else if (!delivered.staticSizing) {
      delivered.awaitCounts();
    }
    return delivered;
  }

  /** The handle after its counts have arrived, even if the caller fixed the number of rows. */
  private CudaHandle counted() {
    CudaHandle delivered = arrived();
    delivered.awaitCounts();
    return delivered;
  }

  private Tokens tokens() {
    Tokens tokens = sent;
    if (tokens == null) {
      throw new IllegalStateException("nothing has been dispatched");
    }
    return tokens;
  }

  @Override
  public long rows() {
    CudaHandle h = arrived();
    return h.staticSizing ? h.limit : h.rows();
  }

  @Override
  public long receivedRows() {
    return counted().receivedRows();
  }

  @Override
  public Tensor x() {
    long rows = rows();
    return x.of(context.at(at.rows), tokens().x().dtype(), rows, context.config.hidden());
  }

  @Override
  public @Nullable Tensor scales() {
    long rows = rows();
    Tensor given = tokens().scales();
    if (given == null) {
      return null;
    }
    DType type = given.dtype();
    return arrived().scaleLayout == ScaleLayout.COLUMN_MAJOR
        ? scales.of(
            ScaleTranspose.memory(context, given),
            type,
            given.size(1),
            ScaleLayout.columnLength(type, rows))
        : scales.of(context.at(at.scales), type, rows, given.size(1));
  }

  @Override
  public @Nullable Tensor globalScales() {
    long rows = rows();
    return tokens().globalScales() == null
        ? null
        : globalScales.of(context.at(at.factors), DType.FP32, rows);
  }

  @Override
  public @Nullable Tensor topkIdx() {
    CudaHandle h = arrived();
    return cached || h.layout != Layout.FLAT
        ? null
        : topkIdx.of(context.at(at.ids), DType.INT64, rows(), h.topK);
  }

  @Override
  public @Nullable Tensor topkWeights() {
    CudaHandle h = arrived();
    if (cached || !h.weighted) {
      return null;
    }
    return h.layout == Layout.FLAT
        ? topkWeights.of(context.at(at.weights), DType.FP32, rows(), h.topK)
        : topkWeights.of(context.at(at.weights), DType.FP32, rows());
  }

  @Override
  public Tensor alignedCounts() {
    CudaHandle h = counted();
    return tokensPerExpert.of(h.host(), h.at().aligned, DType.INT32, localExperts);
  }

  @Override
  public Tensor counts() {
    CudaHandle h = counted();
    return receivedPerExpert.of(h.host(), h.at().received, DType.INT32, localExperts);
  }

  @Override
  public @Nullable Tensor expertOffsets() {
    CudaHandle h = counted();
    return h.layout == Layout.FLAT
        ? null
        : expertOffsets.of(h.host(), h.at().expertOffsets, DType.INT64, localExperts + 1L);
  }

  @Override
  public @Nullable Tensor rankOffsets() {
    CudaHandle h = counted();
    return h.layout == Layout.FLAT
        ? rankOffsets.of(h.host(), h.at().rankOffsets, DType.INT64, context.ranks + 1L)
        : null;
  }

  @Override
  public Tensor sourceTokens() {
    return sourceTokens.of(context.at(at.tokens), DType.INT32, rows());
  }

  @Override
  public Tensor sourceRanks() {
    return sourceRanks.of(context.at(at.sources), DType.INT32, rows());
  }

  @Override
  public Tensor combineInput(DType type) {
    if (!type.summable()) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_COMBINE_DTYPE,
          "dtype",
          type.name(),
          "BF16, FP16 or FP32",
          "combine sums rows of these types");
    }
    int hidden = context.config.hidden();
    long bytes = type.bytes((long) context.layout.capacity * hidden);
    long address = context.staging.memory(Staging.Buffer.COMBINE_INPUT, bytes);
    return combineInput.of(address, type, context.layout.capacity, hidden);
  }

  @Override
  public @Nullable ReceiveOverflowException overflow() {
    CudaHandle h = counted();
    return h.neededRows() > h.limit
        ? new ReceiveOverflowException(context.rank, h.neededRows(), h.limit)
        : null;
  }

  @Override
  public DispatchHandle handle() {
    CudaHandle delivered = arrived();
    handedOut = true;
    return delivered;
  }

  @Override
  public Event event() {
    return event;
  }
}
