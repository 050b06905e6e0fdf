package org.ep4j.engine.host.lowlatency;

import java.lang.foreign.Arena;
import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.Tensor;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.layout.LowLatencyMemoryLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;
import org.jspecify.annotations.Nullable;

/** Owner of the memory that {@link LowLatencyMemoryLayout} describes, and views of it. */
final class LowLatencyMemory implements AutoCloseable {
  private final LowLatencyMemoryLayout layout;
  private final PrivateMemory memory;
  private final Arena views;
  private final int hidden;

  /** Outputs by experts and by ranks, for each half. */
  private final LowLatencyOutputs[] byExperts = new LowLatencyOutputs[2];

  private final LowLatencyOutputs[] byRanks = new LowLatencyOutputs[2];

  /** Views of sums, created on first use: [half][tokens]. */
  private final @Nullable Tensor[][] sums;

  LowLatencyMemory(BufferConfig config, int ranks, int experts, Arena views) {
    this.layout = new LowLatencyMemoryLayout(config, ranks, experts);
    this.memory = PrivateMemory.reserve(layout.bytes);
    this.views = views;
    this.hidden = config.hidden();
    this.sums = new Tensor[2][Limits.lowLatencyTokens(config) + 1];
    for (int half = 0; half < 2; half++) {
      byExperts[half] =
          new LowLatencyOutputs(this, config, half, experts, rowsPerExpert(), experts, ranks);
      byRanks[half] = new LowLatencyOutputs(this, config, half, ranks, rowsPerRank(), ranks);
    }
  }

  long bytes() {
    return memory.bytes();
  }

  /** Row capacity of a local expert, R*M. */
  long rowsPerExpert() {
    return layout.rowsPerExpert;
  }

  /** By ranks: row capacity of a source rank, M. */
  long rowsPerRank() {
    return layout.rowsPerRank;
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

  /** By ranks: weights of the choices. */
  long choiceWeights(int half) {
    return rows(half) + layout.choiceWeights;
  }

  /** Views of the outputs. */
  LowLatencyOutputs outputs(int half, boolean asRanks) {
    return (asRanks ? byRanks : byExperts)[half];
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

  /** A view of this memory. */
  Tensor view(long address, DType dtype, long... shape) {
    long elements = 1;
    for (long s : shape) {
      elements *= s;
    }
    return Tensor.of(NativeMemory.view(address, dtype.bytes(elements), views), dtype, shape);
  }
}
