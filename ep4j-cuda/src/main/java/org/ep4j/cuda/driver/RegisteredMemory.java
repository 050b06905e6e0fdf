package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * Host memory of another owner, page-locked while this object is open: kernels of every device can
 * load and store it. Whole pages are locked, so no other registered memory may share a page. The
 * owner keeps the memory until this object is closed.
 */
public final class RegisteredMemory implements AutoCloseable {
  private static final long PAGE = 4096;

  private final CudaDevice device;
  private final long first;
  private final long deviceAddress;
  private boolean closed;

  private RegisteredMemory(CudaDevice device, long first, long deviceAddress) {
    this.device = device;
    this.first = first;
    this.deviceAddress = deviceAddress;
  }

  /**
   * Locks the pages of a native segment of at least one byte.
   *
   * @throws CudaException if the driver refuses, for example because the pages are locked already
   */
  public static RegisteredMemory of(CudaDevice device, MemorySegment segment) {
    DeviceMemory.checkSize(segment.byteSize());
    long first = segment.address() / PAGE * PAGE;
    long end = Math.ceilDiv(segment.address() + segment.byteSize(), PAGE) * PAGE;
    try (var _ = device.enter()) {
      register(device, first, end - first);
      try {
        return new RegisteredMemory(device, first, addressOf(device, segment));
      } catch (CudaException e) {
        MemoryCalls.unregisterHost(first);
        throw e;
      }
    }
  }

  private static void register(CudaDevice device, long first, long bytes) {
    try {
      MemoryCalls.registerHost(
          first,
          bytes,
          DriverConstants.CU_MEMHOSTREGISTER_PORTABLE
              | DriverConstants.CU_MEMHOSTREGISTER_DEVICEMAP);
    } catch (CudaException e) {
      throw e.isOutOfMemory()
          ? MissingMemory.ofHost(e, device, bytes)
          : CudaException.of(
              e.code(),
              DriverFunction.MEM_HOST_REGISTER,
              "locking " + bytes + " bytes of host memory for " + device);
    }
  }

  /**
   * Device address of memory that this process has locked through any device.
   *
   * @throws CudaException if the memory is not locked
   */
  public static long addressOf(CudaDevice device, MemorySegment segment) {
    try (var _ = device.enter()) {
      return MemoryCalls.devicePointer(segment.address(), 0);
    }
  }

  /** Device address of the first byte of the segment. */
  public long deviceAddress() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the memory is no longer registered: create a new one");
    }
    return deviceAddress;
  }

  /** Unlocks the pages. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> MemoryCalls.unregisterHost(first));
    }
  }
}
