package org.ep4j.cuda.put;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.Kernel;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** Kernels with puts, loaded by {@link DevicePut#load}. */
public final class PutModule implements AutoCloseable {
  private final ResourceStack owned;
  private final Map<String, Kernel> kernels = new HashMap<>();

  /**
   * @param owned closes the module when this is closed
   */
  PutModule(CudaModule module, ResourceStack owned, List<String> kernels) {
    this.owned = owned;
    for (String name : kernels) {
      this.kernels.put(name, module.kernel(name));
    }
  }

  /**
   * A kernel by its name.
   *
   * @throws IllegalArgumentException if the kernel was not loaded
   */
  public Kernel kernel(String name) {
    Kernel kernel = kernels.get(name);
    if (kernel == null) {
      throw new InvalidArgumentException(
          ErrorCode.PUT_KERNEL_NOT_LOADED,
          "kernel",
          name,
          "one of " + kernels.keySet().stream().sorted().toList(),
          "add it to the list of DevicePut.load");
    }
    return kernel;
  }

  /** Unloads the kernels. */
  @Override
  public void close() {
    owned.close();
  }
}
