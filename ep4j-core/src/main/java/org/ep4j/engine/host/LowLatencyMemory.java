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
  private final int ranks;

  /** Sets of views: by experts for each half, then by ranks for each. */
  private static final int SETS = 4;

  /** Views of rows and scales, made when first asked for: [set][format]. */
  private final @Nullable Tensor[][] rows = new Tensor[SETS][LowLatencyFormat.COUNT];

  private final @Nullable Tensor[][] scales = new Tensor[SETS][LowLatencyFormat.COUNT];
  private final @Nullable Tensor[][] scaleColumns = new Tensor[SETS][LowLatencyFormat.COUNT];

  /** Views of choices, likewise: [half][topK]. */
  private final @Nullable Tensor[][] choices;

  private final @Nullable Tensor[][] choiceWeights;

  /** Views of sums, made when first asked for: [half][tokens]. */
  private final @Nullable Tensor[][] sums;

  private final Tensor[] sourceInfo = new Tensor[SETS];
  private final Tensor[] layoutRange = new Tensor[SETS];
  private final Tensor[] receiveCount = new Tensor[SETS];

  LowLatencyMemory(BufferConfig config, int ranks, int experts, Arena views) {
    this.layout = new LowLatencyMemoryLayout(config, ranks, experts);
    this.memory = PrivateMemory.reserve(layout.bytes);
    this.views = views;
    this.hidden = config.hidden();
    this.experts = experts;
    this.ranks = ranks;
    this.choices = new Tensor[2][config.topK() + 1];
    this.choiceWeights = new Tensor[2][config.topK() + 1];
    this.sums = new Tensor[2][config.lowLatencyMaxTokens() + 1];
    for (int half = 0; half < 2; half++) {
      sourceInfo[half] = view(sourceInfo(half), DType.INT32, experts, layout.capacity);
      layoutRange[half] = view(layoutRange(half), DType.INT64, experts, ranks);
      receiveCount[half] = view(receiveCount(half), DType.INT32, experts);
      int byRanks = set(half, true);
      long tokens = groupCapacity(true);
      sourceInfo[byRanks] = view(sourceInfo(half), DType.INT32, ranks, tokens);
      layoutRange[byRanks] = view(layoutRange(half), DType.INT64, ranks);
      receiveCount[byRanks] = view(receiveCount(half), DType.INT32, ranks);
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

  /** By ranks: choices of each row. */
  long choices(int half) {
    return rows(half) + layout.choices;
  }

  /** By ranks: their weights. */
  long choiceWeights(int half) {
    return rows(half) + layout.choiceWeights;
  }

  /** Rows that each group has room for. */
  long groupCapacity(boolean byRanks) {
    return byRanks ? layout.capacity / ranks : layout.capacity;
  }

  private int groups(boolean byRanks) {
    return byRanks ? ranks : experts;
  }

  Tensor rowTensor(int half, LowLatencyFormat format, boolean byRanks) {
    @Nullable Tensor[] made = rows[set(half, byRanks)];
    Tensor tensor = made[format.index()];
    if (tensor == null) {
      tensor = view(rows(half), format.dtype(), groups(byRanks), groupCapacity(byRanks), hidden);
      made[format.index()] = tensor;
    }
    return tensor;
  }

  @Nullable Tensor scaleTensor(int half, LowLatencyFormat format, boolean byRanks) {
    @Nullable Tensor[] made = scales[set(half, byRanks)];
    Tensor tensor = made[format.index()];
    if (tensor == null && format.scales() > 0) {
      long capacity = groupCapacity(byRanks);
      tensor = view(scales(half), format.scaleDType(), groups(byRanks), capacity, format.scales());
      made[format.index()] = tensor;
    }
    return tensor;
  }

  @Nullable Tensor scaleColumnTensor(int half, LowLatencyFormat format, boolean byRanks) {
    @Nullable Tensor[] made = scaleColumns[set(half, byRanks)];
    Tensor tensor = made[format.index()];
    if (tensor == null && format.scales() > 0) {
      DType dtype = format.columnDType();
      long length = ScaleLayout.columnLength(dtype, groupCapacity(byRanks));
      tensor = view(scales(half), dtype, groups(byRanks), format.columns(), length);
      made[format.index()] = tensor;
    }
    return tensor;
  }

  private static int set(int half, boolean byRanks) {
    return byRanks ? 2 + half : half;
  }

  Tensor sourceInfoTensor(int half, boolean byRanks) {
    return sourceInfo[set(half, byRanks)];
  }

  Tensor layoutRangeTensor(int half, boolean byRanks) {
    return layoutRange[set(half, byRanks)];
  }

  Tensor receiveCountTensor(int half, boolean byRanks) {
    return receiveCount[set(half, byRanks)];
  }

  /** By ranks: choices [R, M, topK]. */
  Tensor choiceTensor(int half, int topK) {
    Tensor tensor = choices[half][topK];
    if (tensor == null) {
      tensor = view(choices(half), DType.INT64, ranks, groupCapacity(true), topK);
      choices[half][topK] = tensor;
    }
    return tensor;
  }

  /** By ranks: their weights. */
  Tensor choiceWeightTensor(int half, int topK) {
    Tensor tensor = choiceWeights[half][topK];
    if (tensor == null) {
      tensor = view(choiceWeights(half), DType.FP32, ranks, groupCapacity(true), topK);
      choiceWeights[half][topK] = tensor;
    }
    return tensor;
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
