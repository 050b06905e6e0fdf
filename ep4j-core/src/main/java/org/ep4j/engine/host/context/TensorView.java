package org.ep4j.engine.host.context;

import java.lang.foreign.MemorySegment;
import org.ep4j.DType;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** A tensor over an array of the buffer's memory; created again only when type or shape change. */
public final class TensorView {
  private final MemorySegment memory;
  private final long offset;
  private @Nullable Tensor last;

  /**
   * @param memory the region that holds the array
   * @param offset first byte of the array
   */
  public TensorView(MemorySegment memory, long offset) {
    this.memory = memory;
    this.offset = offset;
  }

  public Tensor of(DType dtype, long elements) {
    Tensor view = last;
    if (view == null
        || view.dtype() != dtype
        || view.dimensions() != 1
        || view.size(0) != elements) {
      view = Tensor.of(memory.asSlice(offset, dtype.bytes(elements)), dtype, elements);
      last = view;
    }
    return view;
  }

  public Tensor of(DType dtype, long rows, long columns) {
    Tensor view = last;
    if (view == null
        || view.dtype() != dtype
        || view.dimensions() != 2
        || view.size(0) != rows
        || view.size(1) != columns) {
      view = Tensor.of(memory.asSlice(offset, dtype.bytes(rows * columns)), dtype, rows, columns);
      last = view;
    }
    return view;
  }
}
