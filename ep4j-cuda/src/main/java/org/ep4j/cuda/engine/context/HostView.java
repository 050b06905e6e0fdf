package org.ep4j.cuda.engine.context;

import java.lang.foreign.MemorySegment;
import org.ep4j.DType;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.PinnedMemory;
import org.jspecify.annotations.Nullable;

/** A one-dimensional tensor in page-locked memory, recreated only when type or address change. */
public final class HostView {
  private @Nullable Tensor last;

  public Tensor of(PinnedMemory memory, long offset, DType dtype, long elements) {
    Tensor view = last;
    if (view == null
        || view.address() != memory.hostAddress() + offset
        || view.dtype() != dtype
        || view.size(0) != elements) {
      MemorySegment part = memory.segment().asSlice(offset, dtype.bytes(elements));
      view = Tensor.of(part, dtype, elements);
      last = view;
    }
    return view;
  }
}
