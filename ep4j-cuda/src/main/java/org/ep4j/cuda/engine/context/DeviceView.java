package org.ep4j.cuda.engine.context;

import org.ep4j.DType;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** A tensor at a device address, recreated only when type, shape or address change. */
public final class DeviceView {
  private final int device;
  private @Nullable Tensor last;

  public DeviceView(int device) {
    this.device = device;
  }

  public Tensor of(long address, DType dtype, long elements) {
    Tensor view = last;
    if (view == null
        || view.address() != address
        || view.dtype() != dtype
        || view.dimensions() != 1
        || view.size(0) != elements) {
      view = Tensor.ofDevice(address, device, dtype, elements);
      last = view;
    }
    return view;
  }

  public Tensor of(long address, DType dtype, long rows, long columns) {
    Tensor view = last;
    if (view == null
        || view.address() != address
        || view.dtype() != dtype
        || view.dimensions() != 2
        || view.size(0) != rows
        || view.size(1) != columns) {
      view = Tensor.ofDevice(address, device, dtype, rows, columns);
      last = view;
    }
    return view;
  }
}
