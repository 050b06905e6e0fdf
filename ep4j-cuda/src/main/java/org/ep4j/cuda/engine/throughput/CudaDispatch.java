package org.ep4j.cuda.engine.throughput;

import java.util.Optional;
import org.ep4j.DType;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.ReceiveOverflowException;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.DeviceView;
import org.ep4j.cuda.engine.context.HostView;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.ResultLifetime;
import org.jspecify.annotations.Nullable;

/**
 * The result of a dispatch. Rows and row metadata are views of the device's receive region; counts
 * are page-locked host memory that kernels may read too. A buffer reuses a few objects in turn.
 */
abstract class CudaDispatch implements Dispatch {
  /** Names in messages. */
  static final String NAME = "dispatch";

  static final String CACHED = "cached dispatch";

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
  private final HostView alignedCounts = new HostView();
  private final HostView counts = new HostView();
  private final HostView expertOffsets = new HostView();
  private final HostView rankOffsets = new HostView();

  private final ResultLifetime lifetime;
  private long number;
  private @Nullable CudaHandle handle;
  private @Nullable Tokens sent;
  private boolean cached;

  /** Whether the caller has the handle, or had it before a cached dispatch, and closes it. */
  private boolean handedOut;

  private final OperationEnd end;

  /** Whether results are ready in the order of the caller's stream instead of on return. */
  private boolean inStreamOrder;

  /** Whether the dispatch is part of a graph; its handle may be older than the graph. */
  private boolean captured;

  CudaDispatch(CudaContext context, ResultLifetime lifetime) {
    this.context = context;
    this.lifetime = lifetime;
    this.end = new OperationEnd(context.completion);
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
   * The next dispatch is enqueued. The caller owns the handle if it was requested; otherwise the
   * handle is unreachable and is recycled, as after a failed dispatch. The graph owns the handle of
   * a captured dispatch.
   */
  final void end() {
    CudaHandle before = handle;
    if (before != null && !handedOut && !before.captured) {
      before.close();
    }
  }

  /** Begins result {@code next} of the buffer. */
  final void begin(long next) {
    number = next;
    handle = null;
  }

  /**
   * Describes an enqueued operation.
   *
   * @param ticket 0 if the operation has ended
   */
  final void enqueued(
      CudaHandle routes,
      Tokens tokens,
      boolean again,
      long ticket,
      boolean callersStream,
      boolean inGraph) {
    handle = routes;
    handedOut = again;
    sent = tokens;
    cached = again;
    end.enqueued(again ? CACHED : NAME, 0, ticket);
    inStreamOrder = callersStream;
    captured = inGraph;
  }

  /** The handle after the host-visible counts have arrived. */
  private CudaHandle arrived() {
    CudaHandle delivered = handle;
    if (delivered == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the dispatch has failed: read the error from its event");
    }
    if (!captured) {
      // Replays of a graph write the results of a captured dispatch again.
      lifetime.require(number);
    }
    if (!inStreamOrder) {
      end.await();
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
  public final long rows() {
    CudaHandle h = arrived();
    return h.staticSizing ? h.limit : h.rows();
  }

  @Override
  public final long receivedRows() {
    return counted().receivedRows();
  }

  @Override
  public final Tensor x() {
    long rows = rows();
    return x.of(context.at(at.rows), tokens().x().dtype(), rows, context.config.hidden());
  }

  @Override
  public final boolean hasScales() {
    arrived();
    return tokens().scales() != null;
  }

  @Override
  public final Tensor scales() {
    long rows = rows();
    Tensor given = tokens().scales();
    if (given == null) {
      throw Arguments.missing("scales", "the payload had none");
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
  public final boolean hasGlobalScales() {
    arrived();
    return tokens().globalScales() != null;
  }

  @Override
  public final Tensor globalScales() {
    long rows = rows();
    if (tokens().globalScales() == null) {
      throw Arguments.missing("globalScales", "the payload had none");
    }
    return globalScales.of(context.at(at.factors), DType.FP32, rows);
  }

  @Override
  public final boolean hasWeights() {
    return arrived().weighted && !cached;
  }

  final boolean routed() {
    arrived();
    return !cached;
  }

  final Tensor choices() {
    CudaHandle h = arrived();
    if (cached) {
      throw Arguments.missing("topkIdx", "a cached dispatch does not send choices again");
    }
    return topkIdx.of(context.at(at.ids), DType.INT64, rows(), h.topK);
  }

  /** The weights: [N, K] if {@code choices}, else [N]. */
  final Tensor weights(boolean choices) {
    CudaHandle h = arrived();
    if (cached || !h.weighted) {
      throw Arguments.missing("weights", "the routing had none, or the dispatch was a cached one");
    }
    return choices
        ? topkWeights.of(context.at(at.weights), DType.FP32, rows(), h.topK)
        : topkWeights.of(context.at(at.weights), DType.FP32, rows());
  }

  @Override
  public final Tensor alignedCounts() {
    CudaHandle h = counted();
    return alignedCounts.of(h.host(), h.at().aligned, DType.INT32, localExperts);
  }

  @Override
  public final Tensor counts() {
    CudaHandle h = counted();
    return counts.of(h.host(), h.at().received, DType.INT32, localExperts);
  }

  final Tensor offsetsOfExperts() {
    CudaHandle h = counted();
    return expertOffsets.of(h.host(), h.at().expertOffsets, DType.INT64, localExperts + 1L);
  }

  final Tensor offsetsOfRanks() {
    CudaHandle h = counted();
    return rankOffsets.of(h.host(), h.at().rankOffsets, DType.INT64, context.ranks + 1L);
  }

  @Override
  public final Tensor sourceTokens() {
    return sourceTokens.of(context.at(at.tokens), DType.INT32, rows());
  }

  @Override
  public final Tensor sourceRanks() {
    return sourceRanks.of(context.at(at.sources), DType.INT32, rows());
  }

  @Override
  public final Tensor combineInput(DType type) {
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
  public final Optional<ReceiveOverflowException> overflow() {
    CudaHandle h = counted();
    return h.neededRows() > h.limit
        ? Optional.of(new ReceiveOverflowException(context.rank, h.neededRows(), h.limit))
        : Optional.empty();
  }

  @Override
  public final DispatchHandle handle() {
    CudaHandle delivered = arrived();
    handedOut = true;
    return delivered;
  }

  @Override
  public final Event event() {
    return end.event();
  }

  /** One row per token. */
  static final class Flat extends CudaDispatch implements FlatDispatch {
    Flat(CudaContext context, ResultLifetime lifetime) {
      super(context, lifetime);
    }

    @Override
    public boolean hasChoices() {
      return routed();
    }

    @Override
    public Tensor topkIdx() {
      return choices();
    }

    @Override
    public Tensor topkWeights() {
      return weights(true);
    }

    @Override
    public Tensor rankOffsets() {
      return offsetsOfRanks();
    }
  }

  /** One row per token and local expert. */
  static final class Grouped extends CudaDispatch implements GroupedDispatch {
    Grouped(CudaContext context, ResultLifetime lifetime) {
      super(context, lifetime);
    }

    @Override
    public Tensor expertOffsets() {
      return offsetsOfExperts();
    }

    @Override
    public Tensor rowWeights() {
      return weights(false);
    }
  }
}
