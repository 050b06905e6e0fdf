package org.ep4j.cuda.backend;

import java.util.Map;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.LinkedKernels;

/**
 * Kernels that call device functions of a library: linked to them, and registered with the library
 * from before the first kernel runs until after the last.
 */
public final class LibraryModule implements AutoCloseable {
  /** Defines of kernels whose transport is a library, see {@code kernels/transport/library.cuh}. */
  public static final Map<String, String> DEFINES = Map.of("EP4J_PUT_TRANSPORT", "2");

  private final CudaModule module;
  private final PutTransport transport;
  private boolean closed;

  private LibraryModule(CudaModule module, PutTransport transport) {
    this.module = module;
    this.transport = transport;
  }

  /**
   * Links a kernel file of this jar to the functions of a transport, and loads it.
   *
   * @param defines macros, including {@link #DEFINES}
   */
  public static LibraryModule load(
      CudaDevice device, String entry, Map<String, String> defines, PutTransport transport) {
    CudaModule module = LinkedKernels.load(device, entry, defines, transport.parts());
    boolean complete = false;
    try {
      transport.loaded(module);
      complete = true;
      return new LibraryModule(module, transport);
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

  /** Unloads the kernels; a second call does nothing. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      try {
        transport.unloading(module);
      } finally {
        module.close();
      }
    }
  }
}
