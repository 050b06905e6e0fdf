package org.ep4j.cuda.engine.lowlatency;

import java.util.Arrays;
import org.ep4j.DType;
import org.ep4j.Layout;
import org.ep4j.Tensor;
import org.ep4j.cuda.engine.launch.LowLatencyFormat;
import org.jspecify.annotations.Nullable;

/**
 * Caller-visible views of one set of outputs in one {@link Layout}: groups of rows, by local expert
 * or by source rank. Tensors are created on first use and then reused.
 */
final class LowLatencyViews {
  private final LowLatencyMemory.Half half;
  private final int device;
  private final int hidden;
  private final Tensor sourceInfo;
  private final Tensor layoutRange;
  private final Tensor receiveCount;
  private final @Nullable Tensor[] rows = new Tensor[LowLatencyFormat.COUNT];
  private final @Nullable Tensor[] scales = new Tensor[LowLatencyFormat.COUNT];
  private final @Nullable Tensor[] scaleColumns = new Tensor[LowLatencyFormat.COUNT];
  private final @Nullable Tensor[] choices;
  private final @Nullable Tensor[] choiceWeights;
  private @Nullable Tensor combineRegion;

  /** Groups of rows. */
  final int groups;

  /** Capacity of a group in rows. */
  final long capacity;

  LowLatencyViews(
      LowLatencyMemory.Half half, boolean rankMajor, LowLatencyMemory.Shape shape, int device) {
    this.half = half;
    this.device = device;
    hidden = shape.hidden();
    groups = shape.groups(rankMajor);
    capacity = shape.capacity(rankMajor);
    choices = new Tensor[shape.topK() + 1];
    choiceWeights = new Tensor[shape.topK() + 1];
    sourceInfo = view(half.sourceTokens(), DType.INT32, groups, capacity);
    layoutRange =
        rankMajor
            ? view(half.ranges(), DType.INT64, groups)
            : view(half.ranges(), DType.INT64, groups, shape.ranks());
    receiveCount = view(half.rowCounts(), DType.INT32, groups);
  }

  private Tensor view(long address, DType dtype, long... shape) {
    return Tensor.ofDevice(address, device, dtype, shape);
  }

  /** Bytes of the rows of a format and their scales. */
  long bytes(LowLatencyFormat format) {
    long columns = (long) groups * format.columns() * format.columnLength(capacity);
    long byRows = groups * capacity * format.scaleBytes();
    return scalesOffset(format) + Math.max(byRows, format.columnDType().bytes(columns));
  }

  /** Offset of the scales of a format after its rows. */
  long scalesOffset(LowLatencyFormat format) {
    return LowLatencyMemory.align(groups * capacity * format.rowBytes());
  }

  /** Drops the views after the rows have moved. */
  void forgetRows() {
    Arrays.fill(rows, null);
    Arrays.fill(scales, null);
    Arrays.fill(scaleColumns, null);
  }

  Tensor rows(LowLatencyFormat format) {
    Tensor tensor = rows[format.index()];
    if (tensor == null) {
      tensor = view(half.rows(), format.dtype(), groups, capacity, hidden);
      rows[format.index()] = tensor;
    }
    return tensor;
  }

  @Nullable Tensor scales(LowLatencyFormat format) {
    Tensor tensor = scales[format.index()];
    if (tensor == null && format.scales() > 0) {
      long address = half.rows() + scalesOffset(format);
      tensor = view(address, format.scaleDType(), groups, capacity, format.scales());
      scales[format.index()] = tensor;
    }
    return tensor;
  }

  /** Scales in column-major order. */
  @Nullable Tensor scaleColumns(LowLatencyFormat format) {
    Tensor tensor = scaleColumns[format.index()];
    if (tensor == null && format.scales() > 0) {
      long length = format.columnLength(capacity);
      long address = half.rows() + scalesOffset(format);
      tensor = view(address, format.columnDType(), groups, format.columns(), length);
      scaleColumns[format.index()] = tensor;
    }
    return tensor;
  }

  Tensor sourceInfo() {
    return sourceInfo;
  }

  Tensor layoutRange() {
    return layoutRange;
  }

  Tensor receiveCount() {
    return receiveCount;
  }

  /** RANK_MAJOR: the choices of each row. */
  Tensor choices(int topK) {
    Tensor tensor = choices[topK];
    if (tensor == null) {
      tensor = view(half.rowChoices(), DType.INT64, groups, capacity, topK);
      choices[topK] = tensor;
    }
    return tensor;
  }

  /** RANK_MAJOR: the weights of the choices. */
  Tensor choiceWeights(int topK) {
    Tensor tensor = choiceWeights[topK];
    if (tensor == null) {
      tensor = view(half.rowWeights(), DType.FP32, groups, capacity, topK);
      choiceWeights[topK] = tensor;
    }
    return tensor;
  }

  /** Region that callers fill for a zero-copy combine; null before its first use. */
  @Nullable Tensor combineRegion() {
    return combineRegion;
  }

  /** The region for a zero-copy combine, created if necessary. */
  Tensor combineBuffer() {
    Tensor tensor = combineRegion;
    if (tensor == null) {
      long address = half.makeCombineRegion(groups * capacity * 2 * hidden);
      tensor = view(address, DType.BF16, groups, capacity, hidden);
      combineRegion = tensor;
    }
    return tensor;
  }
}
