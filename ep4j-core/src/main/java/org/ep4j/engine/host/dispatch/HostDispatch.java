package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
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
import org.ep4j.engine.Arguments;
import org.ep4j.engine.ResultLifetime;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Payload;
import org.ep4j.engine.host.context.TensorView;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/** The result of a dispatch: views of the receive region. A buffer reuses a few objects in turn. */
public abstract class HostDispatch implements Dispatch {
  private final int hidden;
  private final int capacity;
  private final long scratchAddress;
  private final ScratchLayout scratch;

  private final TensorView x;
  private final TensorView scales;
  private final TensorView scaleColumns;
  private final TensorView globalScales;
  private final TensorView topkIdx;
  private final TensorView topkWeights;
  private final TensorView alignedCounts;
  private final TensorView counts;
  private final TensorView expertOffsets;
  private final TensorView rankOffsets;
  private final TensorView sourceTokens;
  private final TensorView sourceRanks;
  private final TensorView[] combineInputs = new TensorView[DType.values().length];

  private final ResultLifetime lifetime;
  private long number;
  private @Nullable HostHandle handle;
  private DType dtype = DType.BF16;
  private @Nullable DType scaleDtype;
  private long scalesPerRow;
  private boolean hasGlobalScales;
  private boolean hasRouting;
  private boolean hasWeights;
  private @Nullable ReceiveOverflowException overflow;
  private Event event = Event.completed();

  /**
   * @param part this rank's high-throughput part
   * @param memory the private memory
   */
  public HostDispatch(
      ResultLifetime lifetime,
      int hidden,
      HighThroughputLayout layout,
      MemorySegment part,
      ScratchLayout scratch,
      MemorySegment memory) {
    this.lifetime = lifetime;
    this.hidden = hidden;
    this.capacity = layout.capacity;
    this.scratch = scratch;
    this.scratchAddress = memory.address();
    x = new TensorView(part, layout.rows);
    scales = new TensorView(part, layout.scales);
    scaleColumns = new TensorView(memory, scratch.scaleColumns);
    globalScales = new TensorView(part, layout.globalScales);
    topkIdx = new TensorView(part, layout.topkIdx);
    topkWeights = new TensorView(part, layout.topkWeights);
    sourceTokens = new TensorView(part, layout.sourceTokens);
    sourceRanks = new TensorView(part, layout.sourceRanks);
    alignedCounts = new TensorView(memory, scratch.aligned);
    counts = new TensorView(memory, scratch.received);
    expertOffsets = new TensorView(memory, scratch.expertOffsets);
    rankOffsets = new TensorView(memory, scratch.rankOffsets);
    for (DType type : DType.values()) {
      combineInputs[type.ordinal()] = new TensorView(part, layout.combineRows);
    }
  }

  /** Begins result {@code next} of the buffer. */
  public void begin(long next) {
    number = next;
    handle = null;
    event = Event.completed();
  }

  /** Makes the accessors wait for {@code pending}. */
  public void await(Event pending) {
    event = pending;
  }

  /** Describes the received rows. */
  void delivered(
      HostHandle delivered, Payload payload, @Nullable ReceiveOverflowException tooMany) {
    handle = delivered;
    dtype = payload.dtype;
    scaleDtype = payload.scaleDtype;
    scalesPerRow = payload.scalesPerRow;
    hasGlobalScales = payload.globalScales != 0;
    hasRouting = payload.ids != 0;
    hasWeights = payload.weights != 0;
    overflow = tooMany;
    for (int l = 0; l < delivered.received.length; l++) {
      NativeMemory.putInt(scratchAddress + scratch.aligned + 4L * l, delivered.aligned[l]);
      NativeMemory.putInt(scratchAddress + scratch.received + 4L * l, delivered.received[l]);
    }
    copy(delivered.expertOffsets, scratch.expertOffsets);
    copy(delivered.rankOffsets, scratch.rankOffsets);
  }

  private void copy(long[] values, long offset) {
    for (int i = 0; i < values.length; i++) {
      NativeMemory.putLong(scratchAddress + offset + 8L * i, values[i]);
    }
  }

  /** The handle, once all rows have arrived. */
  private HostHandle arrived() {
    lifetime.require(number);
    event.await();
    HostHandle delivered = handle;
    if (delivered == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the dispatch has failed: read the error from its event");
    }
    return delivered;
  }

  @Override
  public final long rows() {
    HostHandle h = arrived();
    return h.staticSizing ? h.limit : h.rows();
  }

  @Override
  public final long receivedRows() {
    return arrived().receivedRows;
  }

  @Override
  public final Tensor x() {
    long rows = rows();
    return x.of(dtype, rows, hidden);
  }

  @Override
  public final boolean hasScales() {
    arrived();
    return scaleDtype != null;
  }

  @Override
  public final Tensor scales() {
    long rows = rows();
    DType type = scaleDtype;
    if (type == null) {
      throw Arguments.missing("scales", "the payload had none");
    }
    return arrived().scaleLayout == ScaleLayout.ROW_MAJOR
        ? scales.of(type, rows, scalesPerRow)
        : scaleColumns.of(type, scalesPerRow, ScaleLayout.columnLength(type, rows));
  }

  @Override
  public final boolean hasGlobalScales() {
    arrived();
    return hasGlobalScales;
  }

  @Override
  public final Tensor globalScales() {
    long rows = rows();
    if (!hasGlobalScales) {
      throw Arguments.missing("globalScales", "the payload had none");
    }
    return globalScales.of(DType.FP32, rows);
  }

  @Override
  public final boolean hasWeights() {
    arrived();
    return hasWeights;
  }

  final boolean routed() {
    arrived();
    return hasRouting;
  }

  final Tensor choices() {
    HostHandle h = arrived();
    if (!hasRouting) {
      throw Arguments.missing("topkIdx", "a cached dispatch does not send choices again");
    }
    return topkIdx.of(DType.INT64, rows(), h.topK);
  }

  final Tensor offsetsOfRanks() {
    return rankOffsets.of(DType.INT64, arrived().rankOffsets.length);
  }

  final Tensor offsetsOfExperts() {
    return expertOffsets.of(DType.INT64, arrived().expertOffsets.length);
  }

  /** The weights: [N, K] if {@code choices}, else [N]. */
  final Tensor weights(boolean choices) {
    HostHandle h = arrived();
    if (!hasWeights) {
      throw Arguments.missing("weights", "the routing had none, or the dispatch was a cached one");
    }
    return choices
        ? topkWeights.of(DType.FP32, rows(), h.topK)
        : topkWeights.of(DType.FP32, rows());
  }

  @Override
  public final Tensor alignedCounts() {
    return alignedCounts.of(DType.INT32, arrived().received.length);
  }

  @Override
  public final Tensor counts() {
    return counts.of(DType.INT32, arrived().received.length);
  }

  @Override
  public final Tensor sourceTokens() {
    return sourceTokens.of(DType.INT32, rows());
  }

  @Override
  public final Tensor sourceRanks() {
    return sourceRanks.of(DType.INT32, rows());
  }

  @Override
  public final Tensor combineInput(DType type) {
    if (!type.summable()) {
      throw new InvalidArgumentException(
          ErrorCode.TYPE_NOT_SUMMED,
          "dtype",
          type.name(),
          "BF16, FP16 or FP32",
          "pass a type that combine can sum");
    }
    return combineInputs[type.ordinal()].of(type, capacity, hidden);
  }

  @Override
  public final Optional<ReceiveOverflowException> overflow() {
    arrived();
    return Optional.ofNullable(overflow);
  }

  @Override
  public final DispatchHandle handle() {
    return arrived();
  }

  @Override
  public final Event event() {
    return event;
  }

  /** One row per token. */
  public static final class Flat extends HostDispatch implements FlatDispatch {
    public Flat(
        ResultLifetime lifetime,
        int hidden,
        HighThroughputLayout layout,
        MemorySegment part,
        ScratchLayout scratch,
        MemorySegment memory) {
      super(lifetime, hidden, layout, part, scratch, memory);
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
  public static final class Grouped extends HostDispatch implements GroupedDispatch {
    public Grouped(
        ResultLifetime lifetime,
        int hidden,
        HighThroughputLayout layout,
        MemorySegment part,
        ScratchLayout scratch,
        MemorySegment memory) {
      super(lifetime, hidden, layout, part, scratch, memory);
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
