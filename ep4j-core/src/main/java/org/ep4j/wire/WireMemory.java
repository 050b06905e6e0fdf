package org.ep4j.wire;

import java.lang.foreign.MemorySegment;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Memory for a wire, on the host or on a device.
 *
 * @param address first byte, in its address space
 * @param bytes length in bytes
 * @param device number of the device; {@link #HOST} for host memory
 * @param dmaBuf file descriptor of a dma-buf that begins with this memory, by which a network card
 *     can register device memory; {@link #NO_DMA_BUF} for none. Its owner may close it after the
 *     wire has received the memory
 * @param segment the same memory as a segment; null on a device
 */
public record WireMemory(
    long address, long bytes, int device, int dmaBuf, @Nullable MemorySegment segment) {
  /** Device number of host memory. */
  public static final int HOST = -1;

  /** File descriptor of memory without a dma-buf. */
  public static final int NO_DMA_BUF = -1;

  /**
   * Host memory; the segment must be native and accessible by any thread.
   *
   * @throws InvalidArgumentException otherwise
   */
  public static WireMemory host(MemorySegment segment) {
    if (!segment.isNative() || !segment.isAccessibleBy(ReaperThread.REAPER)) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_MEMORY_KIND,
          "segment",
          segment.isNative() ? "confined to a thread" : "on the Java heap",
          "native and shared",
          "allocate the segment in a shared arena");
    }
    return new WireMemory(segment.address(), segment.byteSize(), HOST, NO_DMA_BUF, segment);
  }

  /** Memory of a device. */
  public static WireMemory device(long address, long bytes, int device, int dmaBuf) {
    if (device < 0) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_MEMORY_KIND,
          "device",
          String.valueOf(device),
          "at least 0",
          "pass the number of the GPU");
    }
    return new WireMemory(address, bytes, device, dmaBuf, null);
  }

  /** Whether this is host memory. */
  public boolean onHost() {
    return segment != null;
  }

  /**
   * Holds a thread that never runs: memory that this thread may access is accessible by any thread.
   */
  private static final class ReaperThread {
    static final Thread REAPER = Thread.ofPlatform().unstarted(() -> {});
  }
}
