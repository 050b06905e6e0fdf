package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Copies and fills at raw device addresses, whoever allocated them. The forms with a stream are in
 * stream order: the device of the stream is current (see {@link CudaDevice#makeCurrent}), and the
 * host memory stays alive and untouched until the stream has passed; page-locked host memory
 * ({@link PinnedMemory}) makes them fast and truly asynchronous.
 */
public final class DeviceCopies {
  private static final long DEFAULT_STREAM = 0;

  private DeviceCopies() {}

  /** Copies {@code source}, which may lie on the heap, to the device and waits. */
  public static void toDevice(CudaDevice device, long target, MemorySegment source) {
    try (var _ = device.enter()) {
      if (source.isNative()) {
        copyAndWait(target, source.address(), source.byteSize());
        return;
      }
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment staged = arena.allocate(Math.max(1, source.byteSize()), 16);
        staged.copyFrom(source);
        copyAndWait(target, staged.address(), source.byteSize());
      }
    }
  }

  /**
   * The driver's call may return when pageable memory has been staged, before it has arrived, and
   * streams that are not the default one would not wait for it.
   */
  private static void copyAndWait(long target, long source, long bytes) {
    MemoryCalls.copyHostToDevice(target, source, bytes);
    StreamCalls.synchronize(DEFAULT_STREAM);
  }

  /** Copies from the device to {@code target}, which may lie on the heap, and waits. */
  public static void toHost(CudaDevice device, MemorySegment target, long source) {
    try (var _ = device.enter()) {
      if (target.isNative()) {
        MemoryCalls.copyDeviceToHost(target.address(), source, target.byteSize());
        return;
      }
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment staged = arena.allocate(Math.max(1, target.byteSize()), 16);
        MemoryCalls.copyDeviceToHost(staged.address(), source, target.byteSize());
        target.copyFrom(staged.asSlice(0, target.byteSize()));
      }
    }
  }

  /** Copies native {@code source} to the device in stream order. */
  public static void toDevice(long target, MemorySegment source, CudaStream stream) {
    MemoryCalls.copyHostToDeviceAsync(
        target, nativeAddress(source), source.byteSize(), stream.handle());
  }

  /** Copies from the device to native {@code target} in stream order. */
  public static void toHost(MemorySegment target, long source, CudaStream stream) {
    MemoryCalls.copyDeviceToHostAsync(
        nativeAddress(target), source, target.byteSize(), stream.handle());
  }

  /** The same for any thread, and waits; work of other streams is not waited for. */
  public static void toDeviceBeside(long target, MemorySegment source, CudaStream stream) {
    try (var _ = stream.device().enter()) {
      toDevice(target, source, stream);
      stream.synchronize();
    }
  }

  /** The same in the other direction. */
  public static void toHostBeside(MemorySegment target, long source, CudaStream stream) {
    try (var _ = stream.device().enter()) {
      toHost(target, source, stream);
      stream.synchronize();
    }
  }

  /** Copies between two addresses, of any devices or page-locked, in stream order. */
  public static void copy(long target, long source, long bytes, CudaStream stream) {
    MemoryCalls.copyAsync(target, source, bytes, stream.handle());
  }

  /** Sets bytes in stream order. */
  public static void fill8(long address, byte value, long count, CudaStream stream) {
    MemoryCalls.fill8Async(address, value & 0xff, count, stream.handle());
  }

  /** Sets 32-bit words in stream order; the address is a multiple of 4. */
  public static void fill32(long address, int value, long count, CudaStream stream) {
    MemoryCalls.fill32Async(address, value, count, stream.handle());
  }

  private static long nativeAddress(MemorySegment segment) {
    if (!segment.isNative()) {
      throw new IllegalArgumentException(
          "a copy in stream order needs native host memory: a heap segment moves; use"
              + " PinnedMemory, or the form that waits");
    }
    return segment.address();
  }
}
