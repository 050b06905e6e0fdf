package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import java.util.OptionalInt;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.engine.DeviceAccess;

/** Memory of CUDA devices and copies between device and host; see {@link DeviceAccess}. */
public final class CudaDeviceAccess implements DeviceAccess {
  /** Used by {@link java.util.ServiceLoader}. */
  public CudaDeviceAccess() {}

  @Override
  public int devices() {
    return CudaDevice.count();
  }

  @Override
  public OptionalInt deviceOf(long address) {
    if (CudaDevice.count() == 0) {
      return OptionalInt.empty();
    }
    PointerAttributes memory = PointerAttributes.of(address);
    return memory.type() == PointerAttributes.Type.DEVICE && !memory.managed()
        ? OptionalInt.of(memory.device())
        : OptionalInt.empty();
  }

  @Override
  public long allocate(int device, long bytes) {
    DeviceMemory.checkSize(bytes);
    // The driver destroys a context with its last retain, and the memory with the context. The
    // memory owns one retain; free releases it.
    CudaDevice holder = CudaDevice.open(device);
    boolean allocated = false;
    try (var _ = holder.enter()) {
      long address = MemoryCalls.allocate(bytes);
      allocated = true;
      return address;
    } finally {
      if (!allocated) {
        holder.close();
      }
    }
  }

  @Override
  public void free(int device, long address) {
    try (CudaDevice opened = CudaDevice.open(device);
        var _ = opened.enter()) {
      MemoryCalls.free(address);
    }
    DeviceCalls.releasePrimaryContext(DeviceCalls.device(device));
  }

  @Override
  public void copyToHost(int device, long address, MemorySegment target) {
    try (CudaDevice opened = CudaDevice.open(device)) {
      DeviceCopies.toHost(opened, target, address);
    }
  }

  @Override
  public void copyFromHost(int device, long address, MemorySegment source) {
    try (CudaDevice opened = CudaDevice.open(device)) {
      DeviceCopies.toDevice(opened, address, source);
    }
  }
}
