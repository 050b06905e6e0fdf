package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/**
 * Memory of a device, owned, or a view of memory of another owner. The initial content is
 * undefined.
 */
public final class DeviceMemory implements AutoCloseable {
  private final CudaDevice device;
  private final long address;
  private final long bytes;
  private final boolean owned;
  private boolean closed;

  private DeviceMemory(CudaDevice device, long address, long bytes, boolean owned) {
    this.device = device;
    this.address = address;
    this.bytes = bytes;
    this.owned = owned;
  }

  /** Allocates {@code bytes} bytes, at least 1; the address is a multiple of 256. */
  public static DeviceMemory allocate(CudaDevice device, long bytes) {
    checkSize(bytes);
    try (var _ = device.enter()) {
      return new DeviceMemory(device, MemoryCalls.allocate(bytes), bytes, true);
    } catch (CudaException e) {
      throw MissingMemory.ofDevice(e, device, bytes);
    }
  }

  /** A view of memory of {@code device} whose owner frees it after the view is closed. */
  public static DeviceMemory view(CudaDevice device, long address, long bytes) {
    checkSize(bytes);
    return new DeviceMemory(device, address, bytes, false);
  }

  /** First byte, in the address space of all devices and the host. */
  public long address() {
    checkOpen();
    return address;
  }

  /** Size. */
  public long bytes() {
    return bytes;
  }

  /** Device of the memory. */
  public CudaDevice device() {
    return device;
  }

  /** Copies {@code source}, which may be a heap segment, to {@code offset} and waits. */
  public void copyFrom(long offset, MemorySegment source) {
    DeviceCopies.toDevice(device, at(offset, source.byteSize()), source);
  }

  /**
   * Copies the bytes at {@code offset} to {@code target}, which may be a heap segment, and waits.
   */
  public void copyTo(long offset, MemorySegment target) {
    DeviceCopies.toHost(device, target, at(offset, target.byteSize()));
  }

  /** Copies native {@code source} to {@code offset} in stream order. */
  public void copyFrom(long offset, MemorySegment source, CudaStream stream) {
    DeviceCopies.toDevice(at(offset, source.byteSize()), source, stream);
  }

  /** Copies the bytes at {@code offset} to native {@code target} in stream order. */
  public void copyTo(long offset, MemorySegment target, CudaStream stream) {
    DeviceCopies.toHost(target, at(offset, target.byteSize()), stream);
  }

  /** Sets {@code count} bytes in stream order. */
  public void fill8(long offset, long count, byte value, CudaStream stream) {
    DeviceCopies.fill8(at(offset, count), value, count, stream);
  }

  /** Zeroes {@code count} bytes and waits for this fill only. */
  public void zero(long offset, long count) {
    try (var _ = device.enter();
        CudaStream stream = CudaStream.create(device)) {
      fill8(offset, count, (byte) 0, stream);
      stream.synchronize();
    }
  }

  /** Sets {@code count} 32-bit words in stream order; {@code offset} is a multiple of 4. */
  public void fill32(long offset, long count, int value, CudaStream stream) {
    DeviceCopies.fill32(
        at(offset, Math.multiplyExact(count, (long) Integer.BYTES)), value, count, stream);
  }

  static void checkSize(long bytes) {
    if (bytes < 1) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_MEMORY_SIZE,
          "bytes",
          String.valueOf(bytes),
          "at least 1",
          "allocate nothing where nothing is needed");
    }
  }

  private long at(long offset, long length) {
    checkOpen();
    return address + Objects.checkFromIndexSize(offset, length, bytes);
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the memory of " + device + " is closed: create a new one");
    }
  }

  /** Frees owned memory. The driver waits for work that uses the memory. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (!owned) {
        return;
      }
      device.giveBack(() -> MemoryCalls.free(address));
    }
  }
}
