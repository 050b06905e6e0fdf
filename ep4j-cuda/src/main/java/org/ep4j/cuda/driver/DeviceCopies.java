package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.calls.MemoryCalls;
import org.ep4j.cuda.driver.calls.StreamCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Copies and fills at raw device addresses, independent of the allocator. Methods with a stream run
 * in stream order: the stream's device is current (see {@link CudaDevice#makeCurrent}), and the
 * host memory stays alive and unchanged until the copy has run; copies from and to page-locked
 * memory ({@link PinnedMemory}) are fast and fully asynchronous.
 */
public final class DeviceCopies {
  private static final long DEFAULT_STREAM = 0;

  private DeviceCopies() {}

  /** Copies {@code source}, which may be a heap segment, to the device and waits. */
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
   * The driver's call may return when pageable memory is staged, before the data has arrived, and
   * streams other than the default stream would not wait for the data.
   */
  private static void copyAndWait(long target, long source, long bytes) {
    MemoryCalls.copyHostToDevice(target, source, bytes);
    StreamCalls.synchronize(DEFAULT_STREAM);
  }

  /** Copies from the device to {@code target}, which may be a heap segment, and waits. */
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

  /** Copies native {@code source} to the device from any thread and waits for this stream only. */
  public static void toDeviceBeside(long target, MemorySegment source, CudaStream stream) {
    try (var _ = stream.device().enter()) {
      toDevice(target, source, stream);
      stream.synchronize();
    }
  }

  /**
   * Copies from the device to native {@code target} from any thread and waits for this stream only.
   */
  public static void toHostBeside(MemorySegment target, long source, CudaStream stream) {
    try (var _ = stream.device().enter()) {
      toHost(target, source, stream);
      stream.synchronize();
    }
  }

  /** Copies between two addresses of any devices or of page-locked memory, in stream order. */
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
      throw new InvalidArgumentException(
          ErrorCode.CUDA_HEAP_COPY,
          "host memory",
          "a heap segment",
          "native memory for a copy in stream order",
          "use PinnedMemory, or a copy that waits");
    }
    return segment.address();
  }
}
