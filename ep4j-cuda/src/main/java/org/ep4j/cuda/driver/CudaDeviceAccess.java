package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.DeviceAccess;

/** Copies between the host and CUDA devices for tensors; see {@link DeviceAccess}. */
public final class CudaDeviceAccess implements DeviceAccess {
  /** Used by {@link java.util.ServiceLoader}. */
  public CudaDeviceAccess() {}

  @Override
  public void copyToHost(int device, long address, MemorySegment target) {
    try (CudaDevice opened = CudaDevice.open(device)) {
      opened.synchronize();
      DeviceCopies.toHost(opened, target, address);
    }
  }

  @Override
  public void copyFromHost(int device, long address, MemorySegment source) {
    try (CudaDevice opened = CudaDevice.open(device)) {
      opened.synchronize();
      DeviceCopies.toDevice(opened, address, source);
    }
  }
}
