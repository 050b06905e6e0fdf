package org.ep4j.engine.host.lowlatency;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.engine.host.layout.LowLatencyFormat;
import org.jspecify.annotations.Nullable;

/**
 * Views of one half of a dispatch's outputs, with rows by experts or by ranks. Views that depend on
 * the dispatch are created on first use.
 */
final class LowLatencyOutputs {
  private final LowLatencyMemory memory;
  private final int half;
  private final int hidden;

  /** Number of local experts or source ranks, and row capacity of each. */
  private final int groups;

  private final long capacity;

  /** By format. */
  private final @Nullable Tensor[] rows = new Tensor[LowLatencyFormat.COUNT];

  private final @Nullable Tensor[] scales = new Tensor[LowLatencyFormat.COUNT];
  private final @Nullable Tensor[] scaleColumns = new Tensor[LowLatencyFormat.COUNT];

  /** By topK. */
  private final @Nullable Tensor[] choices;

  private final @Nullable Tensor[] choiceWeights;
  private final Tensor sourceInfo;
  private final Tensor layoutRange;
  private final Tensor receiveCount;

  LowLatencyOutputs(
      LowLatencyMemory memory,
      BufferConfig config,
      int half,
      int groups,
      long capacity,
      long... rangeShape) {
    this.memory = memory;
    this.half = half;
    this.hidden = config.hidden();
    this.groups = groups;
    this.capacity = capacity;
    choices = new Tensor[config.topK() + 1];
    choiceWeights = new Tensor[config.topK() + 1];
    sourceInfo = memory.view(memory.sourceInfo(half), DType.INT32, groups, capacity);
    layoutRange = memory.view(memory.layoutRange(half), DType.INT64, rangeShape);
    receiveCount = memory.view(memory.receiveCount(half), DType.INT32, groups);
  }

  Tensor rows(LowLatencyFormat format) {
    Tensor tensor = rows[format.index()];
    if (tensor == null) {
      tensor = memory.view(memory.rows(half), format.dtype(), groups, capacity, hidden);
      rows[format.index()] = tensor;
    }
    return tensor;
  }

  /** Null if the format has no scales. */
  @Nullable Tensor scales(LowLatencyFormat format, ScaleLayout layout) {
    boolean byColumns = layout == ScaleLayout.COLUMN_MAJOR;
    @Nullable Tensor[] made = byColumns ? scaleColumns : scales;
    Tensor tensor = made[format.index()];
    if (tensor == null && format.scales() > 0) {
      DType dtype = byColumns ? format.columnDType() : format.scaleDType();
      long down = byColumns ? format.columns() : capacity;
      long across = byColumns ? ScaleLayout.columnLength(dtype, capacity) : format.scales();
      tensor = memory.view(memory.scales(half), dtype, groups, down, across);
      made[format.index()] = tensor;
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

  /** By ranks: choices [R, M, topK]. */
  Tensor choices(int topK) {
    return choices(choices, memory.choices(half), DType.INT64, topK);
  }

  /** By ranks: weights of the choices. */
  Tensor choiceWeights(int topK) {
    return choices(choiceWeights, memory.choiceWeights(half), DType.FP32, topK);
  }

  private Tensor choices(@Nullable Tensor[] made, long address, DType dtype, int topK) {
    Tensor tensor = made[topK];
    if (tensor == null) {
      tensor = memory.view(address, dtype, groups, capacity, topK);
      made[topK] = tensor;
    }
    return tensor;
  }
}
