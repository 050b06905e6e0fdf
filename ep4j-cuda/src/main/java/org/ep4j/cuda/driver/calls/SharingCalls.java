package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the driver's functions that share memory between processes and devices. Every method
 * throws a {@link CudaException} that names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class SharingCalls {
  private static final MethodHandle IPC_GET_MEM_HANDLE = link(DriverFunction.IPC_GET_MEM_HANDLE);
  private static final MethodHandle IPC_OPEN_MEM_HANDLE = link(DriverFunction.IPC_OPEN_MEM_HANDLE);
  private static final MethodHandle IPC_CLOSE_MEM_HANDLE =
      link(DriverFunction.IPC_CLOSE_MEM_HANDLE);
  private static final MethodHandle MEM_ADDRESS_RESERVE = link(DriverFunction.MEM_ADDRESS_RESERVE);
  private static final MethodHandle MEM_ADDRESS_FREE = link(DriverFunction.MEM_ADDRESS_FREE);
  private static final MethodHandle MEM_CREATE = link(DriverFunction.MEM_CREATE);
  private static final MethodHandle MEM_RELEASE = link(DriverFunction.MEM_RELEASE);
  private static final MethodHandle MEM_MAP = link(DriverFunction.MEM_MAP);
  private static final MethodHandle MEM_UNMAP = link(DriverFunction.MEM_UNMAP);
  private static final MethodHandle MEM_SET_ACCESS = link(DriverFunction.MEM_SET_ACCESS);
  private static final MethodHandle MEM_EXPORT = link(DriverFunction.MEM_EXPORT);
  private static final MethodHandle MEM_IMPORT = link(DriverFunction.MEM_IMPORT);
  private static final MethodHandle MEM_GET_ALLOCATION_GRANULARITY =
      link(DriverFunction.MEM_GET_ALLOCATION_GRANULARITY);
  private static final MethodHandle MEM_GET_HANDLE_FOR_ADDRESS_RANGE =
      link(DriverFunction.MEM_GET_HANDLE_FOR_ADDRESS_RANGE);

  private SharingCalls() {}

  /** Writes the 64-byte handle of an allocation. */
  public static void ipcHandle(long handle, long address) {
    int result;
    try {
      result = (int) IPC_GET_MEM_HANDLE.invokeExact(handle, address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.IPC_GET_MEM_HANDLE);
  }

  /** Maps an allocation of another process. */
  public static long openIpcHandle(MemorySegment handle, int flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) IPC_OPEN_MEM_HANDLE.invokeExact(out.address(), handle, flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.IPC_OPEN_MEM_HANDLE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Unmaps memory of another process. */
  public static void closeIpcHandle(long address) {
    int result;
    try {
      result = (int) IPC_CLOSE_MEM_HANDLE.invokeExact(address);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.IPC_CLOSE_MEM_HANDLE);
  }

  /** Reserves addresses. */
  public static long reserve(long bytes, long alignment, long hint, long flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result =
            (int) MEM_ADDRESS_RESERVE.invokeExact(out.address(), bytes, alignment, hint, flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.MEM_ADDRESS_RESERVE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Frees reserved addresses. */
  public static void freeAddresses(long address, long bytes) {
    int result;
    try {
      result = (int) MEM_ADDRESS_FREE.invokeExact(address, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_ADDRESS_FREE);
  }

  /** Allocates memory without an address. */
  public static long create(long bytes, long properties, long flags) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) MEM_CREATE.invokeExact(out.address(), bytes, properties, flags);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.MEM_CREATE);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Releases a handle; mappings keep the memory alive. */
  public static void release(long handle) {
    int result;
    try {
      result = (int) MEM_RELEASE.invokeExact(handle);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_RELEASE);
  }

  /** Maps memory at an address. */
  public static void map(long address, long bytes, long offset, long handle, long flags) {
    int result;
    try {
      result = (int) MEM_MAP.invokeExact(address, bytes, offset, handle, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_MAP);
  }

  /** Unmaps memory. */
  public static void unmap(long address, long bytes) {
    int result;
    try {
      result = (int) MEM_UNMAP.invokeExact(address, bytes);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_UNMAP);
  }

  /** Sets the devices that may use the memory. */
  public static void setAccess(long address, long bytes, long descriptions, long count) {
    int result;
    try {
      result = (int) MEM_SET_ACCESS.invokeExact(address, bytes, descriptions, count);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_SET_ACCESS);
  }

  /** Writes a shareable handle. */
  public static void exportHandle(long target, long handle, int type, long flags) {
    int result;
    try {
      result = (int) MEM_EXPORT.invokeExact(target, handle, type, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_EXPORT);
  }

  /** Imports a handle of another process. */
  public static long importHandle(long shared, int type) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) MEM_IMPORT.invokeExact(out.address(), shared, type);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.MEM_IMPORT);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Granularity of sizes. */
  public static long granularity(long properties, int option) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result =
            (int) MEM_GET_ALLOCATION_GRANULARITY.invokeExact(out.address(), properties, option);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.MEM_GET_ALLOCATION_GRANULARITY);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Writes a handle of kind {@code type} for a range of addresses. */
  public static void rangeHandle(long handle, long address, long bytes, int type, long flags) {
    int result;
    try {
      result =
          (int) MEM_GET_HANDLE_FOR_ADDRESS_RANGE.invokeExact(handle, address, bytes, type, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MEM_GET_HANDLE_FOR_ADDRESS_RANGE);
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
