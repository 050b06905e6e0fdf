package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.function.LongConsumer;

/**
 * Binding of the driver's functions for memory, copies and pointers. Every method throws a {@link
 * CudaException} that names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class MemoryCalls {
  private static final MethodHandle MEM_ALLOC = link(DriverFunction.MEM_ALLOC);
  private static final MethodHandle MEM_FREE = link(DriverFunction.MEM_FREE);
  private static final MethodHandle MEM_GET_INFO = link(DriverFunction.MEM_GET_INFO);
  private static final MethodHandle MEM_GET_ADDRESS_RANGE =
      link(DriverFunction.MEM_GET_ADDRESS_RANGE);
  private static final MethodHandle MEM_HOST_ALLOC = link(DriverFunction.MEM_HOST_ALLOC);
  private static final MethodHandle MEM_FREE_HOST = link(DriverFunction.MEM_FREE_HOST);
  private static final MethodHandle MEM_HOST_REGISTER = link(DriverFunction.MEM_HOST_REGISTER);
  private static final MethodHandle MEM_HOST_UNREGISTER = link(DriverFunction.MEM_HOST_UNREGISTER);
  private static final MethodHandle MEM_HOST_GET_DEVICE_POINTER =
      link(DriverFunction.MEM_HOST_GET_DEVICE_POINTER);
  private static final MethodHandle MEMCPY_HTOD = link(DriverFunction.MEMCPY_HTOD);
  private static final MethodHandle MEMCPY_DTOH = link(DriverFunction.MEMCPY_DTOH);
  private static final MethodHandle MEMCPY_HTOD_ASYNC = link(DriverFunction.MEMCPY_HTOD_ASYNC);
  private static final MethodHandle MEMCPY_DTOH_ASYNC = link(DriverFunction.MEMCPY_DTOH_ASYNC);
  private static final MethodHandle MEMCPY_ASYNC = link(DriverFunction.MEMCPY_ASYNC);
  private static final MethodHandle MEMSET_D8_ASYNC = link(DriverFunction.MEMSET_D8_ASYNC);
  private static final MethodHandle MEMSET_D32_ASYNC = link(DriverFunction.MEMSET_D32_ASYNC);
  private static final MethodHandle POINTER_GET_ATTRIBUTES =
      link(DriverFunction.POINTER_GET_ATTRIBUTES);

  private MemoryCalls() {}

  /** Writes the address of new memory to {@code out}; returns a result code. */
  private interface Allocation {
    int into(long out) throws Throwable;
  }

  /** Allocates memory of the current context; also while a graph is captured. */
  public static long allocate(long bytes) {
    return allocate(
        DriverFunction.MEM_ALLOC,
        out -> (int) MEM_ALLOC.invokeExact(out, bytes),
        MemoryCalls::free);
  }

  /**
   * A capture forbids calls that wait for work that it records. Allocations wait for none, but the
   * driver forbids them too, unless the thread asks for the relaxed mode.
   */
  private static long allocate(
      DriverFunction function, Allocation allocation, LongConsumer release) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      MemorySegment mode =
          arena.allocateFrom(ValueLayout.JAVA_INT, DriverConstants.CU_STREAM_CAPTURE_MODE_RELAXED);
      StreamCalls.exchangeCaptureMode(mode);
      int result;
      try {
        result = allocation.into(out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      long address = out.get(ValueLayout.JAVA_LONG, 0);
      try {
        StreamCalls.exchangeCaptureMode(mode);
      } catch (CudaException e) {
        if (result == DriverConstants.CUDA_SUCCESS) {
          release.accept(address);
        }
        throw e;
      }
      CudaException.check(result, function);
      return address;
    }
  }

  /** Frees memory of {@link #allocate}. */
  public static void free(long address) {
    int result;
    try {
      result = (int) MEM_FREE.invokeExact(address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_FREE);
  }

  /** Writes free and total bytes of the current device. */
  public static void info(long free, long total) {
    int result;
    try {
      result = (int) MEM_GET_INFO.invokeExact(free, total);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_GET_INFO);
  }

  /** Writes start and size of the allocation that holds {@code address}. */
  public static void addressRange(long base, long size, long address) {
    int result;
    try {
      result = (int) MEM_GET_ADDRESS_RANGE.invokeExact(base, size, address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_GET_ADDRESS_RANGE);
  }

  /** Allocates page-locked host memory; also while a graph is captured. */
  public static long allocateHost(long bytes, int flags) {
    return allocate(
        DriverFunction.MEM_HOST_ALLOC,
        out -> (int) MEM_HOST_ALLOC.invokeExact(out, bytes, flags),
        MemoryCalls::freeHost);
  }

  /** Frees memory of {@link #allocateHost}. */
  public static void freeHost(long address) {
    int result;
    try {
      result = (int) MEM_FREE_HOST.invokeExact(address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_FREE_HOST);
  }

  /** Page-locks host memory of another allocator. */
  public static void registerHost(long address, long bytes, int flags) {
    int result;
    try {
      result = (int) MEM_HOST_REGISTER.invokeExact(address, bytes, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_HOST_REGISTER);
  }

  /** Unlocks pages of {@link #registerHost}. */
  public static void unregisterHost(long address) {
    int result;
    try {
      result = (int) MEM_HOST_UNREGISTER.invokeExact(address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_HOST_UNREGISTER);
  }

  /** Device address of page-locked host memory. */
  public static long devicePointer(long address, int flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) MEM_HOST_GET_DEVICE_POINTER.invokeExact(out.address(), address, flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.MEM_HOST_GET_DEVICE_POINTER);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Copies and waits. */
  public static void copyHostToDevice(long target, long source, long bytes) {
    int result;
    try {
      result = (int) MEMCPY_HTOD.invokeExact(target, source, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMCPY_HTOD);
  }

  /** Copies and waits. */
  public static void copyDeviceToHost(long target, long source, long bytes) {
    int result;
    try {
      result = (int) MEMCPY_DTOH.invokeExact(target, source, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMCPY_DTOH);
  }

  /** Copies in stream order. */
  public static void copyHostToDeviceAsync(long target, long source, long bytes, long stream) {
    int result;
    try {
      result = (int) MEMCPY_HTOD_ASYNC.invokeExact(target, source, bytes, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMCPY_HTOD_ASYNC);
  }

  /** Copies in stream order. */
  public static void copyDeviceToHostAsync(long target, long source, long bytes, long stream) {
    int result;
    try {
      result = (int) MEMCPY_DTOH_ASYNC.invokeExact(target, source, bytes, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMCPY_DTOH_ASYNC);
  }

  /** Copies in stream order between any two devices, or host and device. */
  public static void copyAsync(long target, long source, long bytes, long stream) {
    int result;
    try {
      result = (int) MEMCPY_ASYNC.invokeExact(target, source, bytes, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMCPY_ASYNC);
  }

  /**
   * Sets bytes in stream order. The value is an int of 0 to 255, because a callee may rely on the
   * upper bits.
   */
  public static void fill8Async(long address, int value, long count, long stream) {
    int result;
    try {
      result = (int) MEMSET_D8_ASYNC.invokeExact(address, value, count, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMSET_D8_ASYNC);
  }

  /** Sets 32-bit words in stream order. */
  public static void fill32Async(long address, int value, long count, long stream) {
    int result;
    try {
      result = (int) MEMSET_D32_ASYNC.invokeExact(address, value, count, stream);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEMSET_D32_ASYNC);
  }

  /** Reads attributes of a pointer; those of an unknown pointer are 0. */
  public static void pointerAttributes(int count, long attributes, long targets, long pointer) {
    int result;
    try {
      result = (int) POINTER_GET_ATTRIBUTES.invokeExact(count, attributes, targets, pointer);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.POINTER_GET_ATTRIBUTES);
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
