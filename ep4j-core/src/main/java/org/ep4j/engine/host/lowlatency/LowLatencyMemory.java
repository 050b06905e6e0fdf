package org.ep4j.engine.host.lowlatency;

import java.lang.foreign.Arena;
import org.ep4j.engine.host.layout.LowLatencyMemoryLayout;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyViews;
import org.ep4j.engine.lowlatency.OutputShape;
import org.ep4j.engine.lowlatency.ViewsByExperts;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Owner of the memory that {@link LowLatencyMemoryLayout} describes, and views of it. */
final class LowLatencyMemory implements AutoCloseable {
  private final LowLatencyMemoryLayout layout;
  private final PrivateMemory memory;
  private final Arena views;
  private final OutputShape shape;
  private final Half[] halves = new Half[2];

  LowLatencyMemory(OutputShape shape, Arena views) {
    this.shape = shape;
    this.views = views;
    layout = new LowLatencyMemoryLayout(shape);
    memory = PrivateMemory.reserve(layout.bytes);
    for (int i = 0; i < halves.length; i++) {
      halves[i] = new Half(memory.address() + i * layout.half);
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

  /** Scratch row {@code i}, of the largest length. */
  long scratch(int i) {
    return memory.address() + layout.scratch + 2L * i * shape.hidden();
  }

  Half half(int i) {
    return halves[i];
  }

  /** One of the two sets of outputs. */
  final class Half implements LowLatencyViews.Outputs {
    private final long start;

    /** Of the outputs of dispatches. */
    final ViewsByExperts outputViews;

    /** Views of sums by tokens, made on first use. */
    private final @Nullable Tensor[] sumViews = new Tensor[shape.tokens() + 1];

    private Half(long start) {
      this.start = start;
      outputViews = new ViewsByExperts(this, shape);
    }

    @Override
    public long rows() {
      return start;
    }

    @Override
    public long scales(LowLatencyFormat format, long rows) {
      return scales();
    }

    /** The scales of every format and layout. */
    long scales() {
      return start + layout.scales;
    }

    @Override
    public long sourceTokens() {
      return start + layout.sourceInfo;
    }

    @Override
    public long ranges() {
      return start + layout.layoutRange;
    }

    @Override
    public long rowCounts() {
      return start + layout.receiveCount;
    }

    @Override
    public long rowChoices() {
      return start + layout.choices;
    }

    @Override
    public long rowWeights() {
      return start + layout.choiceWeights;
    }

    long sums() {
      return start + layout.sums;
    }

    Tensor sumTensor(int tokens, int hidden) {
      Tensor tensor = sumViews[tokens];
      if (tensor == null || tensor.size(1) != hidden) {
        tensor = view(sums(), DType.BF16, tokens, hidden);
        sumViews[tokens] = tensor;
      }
      return tensor;
    }

    @Override
    public Tensor view(long address, DType dtype, long... extents) {
      long elements = 1;
      for (long extent : extents) {
        elements *= extent;
      }
      return Tensor.of(NativeMemory.view(address, dtype.bytes(elements), views), dtype, extents);
    }
  }

  @Override
  public void close() {
    memory.close();
  }
}
