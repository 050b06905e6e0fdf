package org.ep4j.cuda.put;

import org.ep4j.cuda.backend.PutCarrier;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.Kernel;
import org.jspecify.annotations.Nullable;

/** Kernels that put, loaded by {@link DevicePut#load}. */
public final class PutModule implements AutoCloseable {
  private final CudaModule module;
  private final @Nullable PutCarrier carrier;
  private boolean closed;

  PutModule(CudaModule module, @Nullable PutCarrier carrier) {
    this.module = module;
    this.carrier = carrier;
  }

  /** A kernel by its name. */
  public Kernel kernel(String entry) {
    return module.kernel(entry);
  }

  /** Unloads it. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      try {
        if (carrier != null) {
          carrier.unloading(module);
        }
      } finally {
        module.close();
      }
    }
  }
}
