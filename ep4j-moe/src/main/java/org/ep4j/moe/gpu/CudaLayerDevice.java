package org.ep4j.moe.gpu;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.KernelCompiler;

/** A GPU with the kernels of {@link MoeKernel} and cuBLAS. */
public final class CudaLayerDevice implements LayerDevice {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final CudaQueue main;
  private final CudaQueue side;

  private CudaLayerDevice(int ordinal) {
    try {
      device = owned.own(CudaDevice.open(ordinal));
      device.makeCurrent();
      CudaModule kernels =
          owned.own(KernelCompiler.standard().load(device, MoeSources.spec(device.architecture())));
      main = owned.own(new CudaQueue(device, kernels));
      side = owned.own(new CudaQueue(device, kernels));
    } catch (RuntimeException e) {
      owned.close();
      throw e;
    }
  }

  /**
   * Opens a device, which becomes that of the calling thread.
   *
   * @throws org.ep4j.error.EngineUnavailableException without driver, compiler or cuBLAS
   */
  public static CudaLayerDevice open(int ordinal) {
    return new CudaLayerDevice(ordinal);
  }

  @Override
  public int ordinal() {
    return device.ordinal();
  }

  @Override
  public long allocate(long bytes) {
    return owned.own(DeviceMemory.allocate(device, bytes)).address();
  }

  @Override
  public void write(long address, MemorySegment source) {
    if (source.byteSize() > 0) {
      DeviceCopies.toDevice(device, address, source);
    }
  }

  @Override
  public void enter() {
    device.makeCurrent();
  }

  @Override
  public WorkQueue main() {
    return main;
  }

  @Override
  public WorkQueue side() {
    return side;
  }

  @Override
  public CapturedWork capture(Runnable calls) {
    return CapturedGraph.of(main.cudaStream(), calls);
  }

  @Override
  public void close() {
    owned.close();
  }
}
