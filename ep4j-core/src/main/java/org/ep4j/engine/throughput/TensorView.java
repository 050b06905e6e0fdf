package org.ep4j.engine.throughput;

import org.ep4j.engine.TensorMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A tensor of a buffer's memory, made again only when its type, shape or address change. */
public final class TensorView {
  private @Nullable Tensor last;

  /** No tensor yet. */
  public TensorView() {}

  /** The tensor with one dimension. */
  public Tensor of(TensorMemory memory, long address, DType dtype, long elements) {
    Tensor view = last;
    if (view == null || !isAt(view, address, dtype, 1) || view.size(0) != elements) {
      view = memory.view(address, dtype, elements);
      last = view;
    }
    return view;
  }

  /** The tensor with two dimensions. */
  public Tensor of(TensorMemory memory, long address, DType dtype, long rows, long columns) {
    Tensor view = last;
    if (view == null
        || !isAt(view, address, dtype, 2)
        || view.size(0) != rows
        || view.size(1) != columns) {
      view = memory.view(address, dtype, rows, columns);
      last = view;
    }
    return view;
  }

  private static boolean isAt(Tensor view, long address, DType dtype, int dimensions) {
    return view.address() == address && view.dtype() == dtype && view.dimensions() == dimensions;
  }
}
