package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * Zeroed page-locked host memory, owned by this object: copies in stream order run at full speed,
 * and kernels of every device can load and store it.
 */
@SuppressWarnings("restricted") // creates a segment for an address that it owns
public final class PinnedMemory implements AutoCloseable {

  private final CudaDevice device;
  private final Arena arena;
  private final long hostAddress;
  private final MemorySegment segment;
  private final long deviceAddress;
  private boolean closed;

  private PinnedMemory(CudaDevice device, long hostAddress, long deviceAddress, long bytes) {
    this.device = device;
    this.arena = Arena.ofShared();
    this.hostAddress = hostAddress;
    this.segment = MemorySegment.ofAddress(hostAddress).reinterpret(bytes, arena, null);
    this.deviceAddress = deviceAddress;
  }

  /** Allocates {@code bytes} bytes, at least 1. */
  public static PinnedMemory allocate(CudaDevice device, long bytes) {
    DeviceMemory.checkSize(bytes);
    try (var _ = device.enter()) {
      long host =
          MemoryCalls.allocateHost(
              bytes,
              DriverConstants.CU_MEMHOSTALLOC_PORTABLE | DriverConstants.CU_MEMHOSTALLOC_DEVICEMAP);
      long mapped;
      try {
        mapped = MemoryCalls.devicePointer(host, 0);
      } catch (CudaException e) {
        MemoryCalls.freeHost(host);
        throw e;
      }
      PinnedMemory memory = new PinnedMemory(device, host, mapped, bytes);
      memory.segment.fill((byte) 0);
      return memory;
    } catch (CudaException e) {
      throw MissingMemory.ofHost(e, device, bytes);
    }
  }

  /** The memory as a host segment, invalid after close. Any thread may use it. */
  public MemorySegment segment() {
    checkOpen();
    return segment;
  }

  /** First byte as a host address. */
  public long hostAddress() {
    checkOpen();
    return hostAddress;
  }

  /** First byte as a device address. */
  public long deviceAddress() {
    checkOpen();
    return deviceAddress;
  }

  /** Size. */
  public long bytes() {
    return segment.byteSize();
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the page-locked memory is closed: create a new one");
    }
  }

  /** Frees the memory. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      arena.close();
      device.giveBack(() -> MemoryCalls.freeHost(hostAddress));
    }
  }
}
