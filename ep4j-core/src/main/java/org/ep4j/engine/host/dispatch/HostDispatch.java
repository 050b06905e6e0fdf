package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
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
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Payload;
import org.ep4j.engine.host.context.TensorView;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * The result of the last dispatch of a buffer: views of the receive region. One object per buffer.
 */
public final class HostDispatch implements Dispatch {
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
      int hidden,
      HighThroughputLayout layout,
      MemorySegment part,
      ScratchLayout scratch,
      MemorySegment memory) {
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
    event.await();
    HostHandle delivered = handle;
    if (delivered == null) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, "the dispatch has failed: read the error from its event");
    }
    return delivered;
  }

  @Override
  public long rows() {
    HostHandle h = arrived();
    return h.staticSizing ? h.limit : h.rows();
  }

  @Override
  public long receivedRows() {
    return arrived().receivedRows;
  }

  @Override
  public Tensor x() {
    long rows = rows();
    return x.of(dtype, rows, hidden);
  }

  @Override
  public @Nullable Tensor scales() {
    long rows = rows();
    DType type = scaleDtype;
    if (type == null) {
      return null;
    }
    return arrived().scaleLayout == ScaleLayout.ROW_MAJOR
        ? scales.of(type, rows, scalesPerRow)
        : scaleColumns.of(type, scalesPerRow, ScaleLayout.columnLength(type, rows));
  }

  @Override
  public @Nullable Tensor globalScales() {
    long rows = rows();
    return hasGlobalScales ? globalScales.of(DType.FP32, rows) : null;
  }

  @Override
  public @Nullable Tensor topkIdx() {
    HostHandle h = arrived();
    return hasRouting && h.layout == Layout.FLAT ? topkIdx.of(DType.INT64, rows(), h.topK) : null;
  }

  @Override
  public @Nullable Tensor topkWeights() {
    HostHandle h = arrived();
    if (!hasWeights) {
      return null;
    }
    return h.layout == Layout.FLAT
        ? topkWeights.of(DType.FP32, rows(), h.topK)
        : topkWeights.of(DType.FP32, rows());
  }

  @Override
  public Tensor alignedCounts() {
    return alignedCounts.of(DType.INT32, arrived().received.length);
  }

  @Override
  public Tensor counts() {
    return counts.of(DType.INT32, arrived().received.length);
  }

  @Override
  public @Nullable Tensor expertOffsets() {
    HostHandle h = arrived();
    return h.layout == Layout.FLAT ? null : expertOffsets.of(DType.INT64, h.expertOffsets.length);
  }

  @Override
  public @Nullable Tensor rankOffsets() {
    HostHandle h = arrived();
    return h.layout == Layout.FLAT ? rankOffsets.of(DType.INT64, h.rankOffsets.length) : null;
  }

  @Override
  public Tensor sourceTokens() {
    return sourceTokens.of(DType.INT32, rows());
  }

  @Override
  public Tensor sourceRanks() {
    return sourceRanks.of(DType.INT32, rows());
  }

  @Override
  public Tensor combineInput(DType type) {
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
  public @Nullable ReceiveOverflowException overflow() {
    arrived();
    return overflow;
  }

  @Override
  public DispatchHandle handle() {
    return arrived();
  }

  @Override
  public Event event() {
    return event;
  }
}
