package org.ep4j.nvshmem;

import java.util.List;
import org.ep4j.cuda.backend.PutTransport;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.jit.DevicePart;

/**
 * Puts of kernels by NVSHMEM's device library, which itself chooses between NVLink and its network transport.
 */
final class NvshmemPutTransport implements PutTransport {
  private final List<DevicePart> parts;
  private final long window;

  /**
   * A transport for kernels of this process.
   *
   * @param window memory on the symmetric heap
   */
  NvshmemPutTransport(List<DevicePart> parts, long window) {
    this.parts = parts;
    this.window = window;
  }

  @Override
  public String text() {
    int[] version = NvshmemLibrary.version();
    return "NVSHMEM's device library %d.%d.%d".formatted(version[0], version[1], version[2]);
  }

  @Override
  public boolean movesAll() {
    return true;
  }

  @Override
  public List<DevicePart> parts() {
    return parts;
  }

  @Override
  public long library() {
    return 0;
  }

  @Override
  public long window() {
    return window;
  }

  @Override
  public void loaded(CudaModule module) {
    NvshmemException.check(NvshmemCalls.moduleInit(module.handle()), NvshmemFunction.MODULE_INIT);
  }

  @Override
  public void unloading(CudaModule module) {
    NvshmemException.check(
        NvshmemCalls.moduleFinish(module.handle()), NvshmemFunction.MODULE_FINALIZE);
  }

  @Override
  public void close() {}
}
