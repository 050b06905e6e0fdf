package org.ep4j.engine.host.context;

import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallMemory;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** The host engine accepts any open host memory, at any address. */
public final class HostCallMemory implements CallMemory {
  /** Stateless. */
  public static final CallMemory ANY = new HostCallMemory();

  private HostCallMemory() {}

  @Override
  public void readable(String name, @Nullable Tensor tensor) {
    if (tensor != null) {
      Arguments.onHost(name, tensor);
    }
  }

  @Override
  public void rows(String name, @Nullable Tensor tensor) {
    readable(name, tensor);
  }

  @Override
  public void writable(String name, @Nullable Tensor tensor) {
    if (tensor != null) {
      Arguments.writableOnHost(name, tensor);
    }
  }

  @Override
  public void writableRows(String name, @Nullable Tensor tensor) {
    writable(name, tensor);
  }
}
