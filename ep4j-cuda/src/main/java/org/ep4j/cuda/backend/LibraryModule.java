package org.ep4j.cuda.backend;

import java.util.Map;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.LinkedKernels;

/**
 * Kernels that call device functions of a library: linked to them, and known to the library from
 * before the first of them runs until after the last.
 */
public final class LibraryModule implements AutoCloseable {
  /** What kernels are compiled with that a library carries for, see {@code kernels/library.cuh}. */
  public static final Map<String, String> DEFINES = Map.of("EP4J_PUT_CARRIER", "2");

  private final CudaModule module;
  private final PutCarrier carrier;
  private boolean closed;

  private LibraryModule(CudaModule module, PutCarrier carrier) {
    this.module = module;
    this.carrier = carrier;
  }

  /**
   * Links a kernel file of this jar to the functions of a carrier, and loads it.
   *
   * @param defines among them {@link #DEFINES}
   */
  public static LibraryModule load(
      CudaDevice device, String entry, Map<String, String> defines, PutCarrier carrier) {
    CudaModule module = LinkedKernels.load(device, entry, defines, carrier.parts());
    boolean complete = false;
    try {
      carrier.loaded(module);
      complete = true;
      return new LibraryModule(module, carrier);
    } finally {
      if (!complete) {
        module.close();
      }
    }
  }

  /** The kernels. */
  public CudaModule module() {
    return module;
  }

  /** Unloads them; a second call does nothing. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      try {
        carrier.unloading(module);
      } finally {
        module.close();
      }
    }
  }
}
