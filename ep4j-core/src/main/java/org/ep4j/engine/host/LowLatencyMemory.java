package org.ep4j.engine.host;

import java.lang.foreign.Arena;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;
import org.jspecify.annotations.Nullable;

/** Owner of the memory that {@link LowLatencyMemoryLayout} describes, and views of it. */
final class LowLatencyMemory implements AutoCloseable {
  private final LowLatencyMemoryLayout layout;
  private final PrivateMemory memory;
  private final Arena views;
  private final int hidden;
  private final int experts;

  /** Views of rows and scales, made when first asked for: [half][format]. */
  private final @Nullable Tensor[][] rows = new Tensor[2][LowLatencyFormat.COUNT];

  private final @Nullable Tensor[][] scales = new Tensor[2][LowLatencyFormat.COUNT];
  private final @Nullable Tensor[][] scaleColumns = new Tensor[2][LowLatencyFormat.COUNT];

  /** Views of sums, made when first asked for: [half][tokens]. */
  private final @Nullable Tensor[][] sums;

  private final Tensor[] sourceInfo = new Tensor[2];
  private final Tensor[] layoutRange = new Tensor[2];
  private final Tensor[] receiveCount = new Tensor[2];

  LowLatencyMemory(BufferConfig config, int ranks, int experts, Arena views) {
    this.layout = new LowLatencyMemoryLayout(config, ranks, experts);
    this.memory = PrivateMemory.reserve(layout.bytes);
    this.views = views;
    this.hidden = config.hidden();
    this.experts = experts;
    this.sums = new Tensor[2][config.lowLatencyMaxTokens() + 1];
    for (int half = 0; half < 2; half++) {
      sourceInfo[half] = view(sourceInfo(half), DType.INT32, experts, layout.capacity);
      layoutRange[half] = view(layoutRange(half), DType.INT64, experts, ranks);
      receiveCount[half] = view(receiveCount(half), DType.INT32, experts);
    }
  }

  long bytes() {
    return memory.bytes();
  }

  /** Rows that each local expert has room for, R*M. */
  long capacity() {
    return layout.capacity;
  }

  long rows(int half) {
    return memory.address() + half * layout.half;
  }

  long scales(int half) {
    return rows(half) + layout.scales;
  }

  long sourceInfo(int half) {
    return rows(half) + layout.sourceInfo;
  }

  long layoutRange(int half) {
    return rows(half) + layout.layoutRange;
  }

  long receiveCount(int half) {
    return rows(half) + layout.receiveCount;
  }

  long sums(int half) {
    return rows(half) + layout.sums;
  }

  /** Scratch row {@code i}. */
  long scratch(int i) {
    return memory.address() + layout.scratch + 2L * i * hidden;
  }

  Tensor rowTensor(int half, LowLatencyFormat format) {
    Tensor tensor = rows[half][format.index()];
    if (tensor == null) {
      tensor = view(rows(half), format.dtype(), experts, layout.capacity, hidden);
      rows[half][format.index()] = tensor;
    }
    return tensor;
  }

  @Nullable Tensor scaleTensor(int half, LowLatencyFormat format) {
    Tensor tensor = scales[half][format.index()];
    if (tensor == null && format.scales() > 0) {
      tensor = view(scales(half), format.scaleDType(), experts, layout.capacity, format.scales());
      scales[half][format.index()] = tensor;
    }
    return tensor;
  }

  @Nullable Tensor scaleColumnTensor(int half, LowLatencyFormat format) {
    Tensor tensor = scaleColumns[half][format.index()];
    if (tensor == null && format.scales() > 0) {
      DType dtype = format.columnDType();
      long length = ScaleLayout.columnLength(dtype, layout.capacity);
      tensor = view(scales(half), dtype, experts, format.columns(), length);
      scaleColumns[half][format.index()] = tensor;
    }
    return tensor;
  }

  Tensor sourceInfoTensor(int half) {
    return sourceInfo[half];
  }

  Tensor layoutRangeTensor(int half) {
    return layoutRange[half];
  }

  Tensor receiveCountTensor(int half) {
    return receiveCount[half];
  }

  Tensor sumTensor(int half, int tokens) {
    Tensor tensor = sums[half][tokens];
    if (tensor == null) {
      tensor = view(sums(half), DType.BF16, tokens, hidden);
      sums[half][tokens] = tensor;
    }
    return tensor;
  }

  @Override
  public void close() {
    memory.close();
  }

  private Tensor view(long address, DType dtype, long... shape) {
    long elements = 1;
    for (long s : shape) {
      elements *= s;
    }
    return Tensor.of(NativeMemory.view(address, dtype.bytes(elements), views), dtype, shape);
  }
}
