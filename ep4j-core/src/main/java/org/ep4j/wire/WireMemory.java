package org.ep4j.wire;

import java.lang.foreign.MemorySegment;
import org.ep4j.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Memory that a wire may be given: on the host, or on a device.
 *
 * @param address where it begins, in its address space
 * @param bytes how long it is
 * @param device number of the device; {@link #HOST} for host memory
 * @param dmaBuf file descriptor of a dma-buf that begins with this memory, by which a network card
 *     may register memory of a device; {@link #NO_DMA_BUF} for none. Its owner may close it once
 *     the wire has been given the memory
 * @param segment the same as a segment; null on a device
 */
public record WireMemory(
    long address, long bytes, int device, int dmaBuf, @Nullable MemorySegment segment) {
  /** In place of a device's number. */
  public static final int HOST = -1;

  /** In place of a file descriptor. */
  public static final int NO_DMA_BUF = -1;

  /** Host memory; the segment must be native, and usable by any thread. */
  public static WireMemory host(MemorySegment segment) {
    if (!segment.isNative() || !segment.isAccessibleBy(ReaperThread.REAPER)) {
      throw new InvalidArgumentException(
          "segment",
          segment.isNative() ? "confined to a thread" : "on the Java heap",
          "native and shared",
          "allocate it in a shared arena");
    }
    return new WireMemory(segment.address(), segment.byteSize(), HOST, NO_DMA_BUF, segment);
  }

  /** Memory of a device. */
  public static WireMemory device(long address, long bytes, int device, int dmaBuf) {
    if (device < 0) {
      throw new InvalidArgumentException(
          "device", String.valueOf(device), "at least 0", "pass the number of the GPU");
    }
    return new WireMemory(address, bytes, device, dmaBuf, null);
  }

  /** Whether it lies on the host. */
  public boolean onHost() {
    return segment != null;
  }

  /** Holds a thread that never runs: what it may access, any thread may. */
  private static final class ReaperThread {
    static final Thread REAPER = Thread.ofPlatform().unstarted(() -> {});
  }
}
