package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the driver's functions for devices, contexts and peer access. Every method throws a
 * {@link CudaException} that names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class DeviceCalls {
  private static final MethodHandle INIT = link(DriverFunction.INIT);
  private static final MethodHandle DRIVER_GET_VERSION = link(DriverFunction.DRIVER_GET_VERSION);
  private static final MethodHandle DEVICE_GET_COUNT = link(DriverFunction.DEVICE_GET_COUNT);
  private static final MethodHandle DEVICE_GET = link(DriverFunction.DEVICE_GET);
  private static final MethodHandle DEVICE_GET_NAME = link(DriverFunction.DEVICE_GET_NAME);
  private static final MethodHandle DEVICE_TOTAL_MEM = link(DriverFunction.DEVICE_TOTAL_MEM);
  private static final MethodHandle DEVICE_GET_ATTRIBUTE =
      link(DriverFunction.DEVICE_GET_ATTRIBUTE);
  private static final MethodHandle DEVICE_GET_PCI_BUS_ID =
      link(DriverFunction.DEVICE_GET_PCI_BUS_ID);
  private static final MethodHandle DEVICE_CAN_ACCESS_PEER =
      link(DriverFunction.DEVICE_CAN_ACCESS_PEER);
  private static final MethodHandle DEVICE_GET_P2P_ATTRIBUTE =
      link(DriverFunction.DEVICE_GET_P2P_ATTRIBUTE);
  private static final MethodHandle DEVICE_PRIMARY_CTX_RETAIN =
      link(DriverFunction.DEVICE_PRIMARY_CTX_RETAIN);
  private static final MethodHandle DEVICE_PRIMARY_CTX_RELEASE =
      link(DriverFunction.DEVICE_PRIMARY_CTX_RELEASE);
  private static final MethodHandle CTX_SET_CURRENT = link(DriverFunction.CTX_SET_CURRENT);
  private static final MethodHandle CTX_GET_CURRENT = link(DriverFunction.CTX_GET_CURRENT);
  private static final MethodHandle CTX_PUSH_CURRENT = link(DriverFunction.CTX_PUSH_CURRENT);
  private static final MethodHandle CTX_POP_CURRENT = link(DriverFunction.CTX_POP_CURRENT);
  private static final MethodHandle CTX_SYNCHRONIZE = link(DriverFunction.CTX_SYNCHRONIZE);
  private static final MethodHandle CTX_ENABLE_PEER_ACCESS =
      link(DriverFunction.CTX_ENABLE_PEER_ACCESS);
  private static final MethodHandle CTX_GET_STREAM_PRIORITY_RANGE =
      link(DriverFunction.CTX_GET_STREAM_PRIORITY_RANGE);

  private DeviceCalls() {}

  /** Initialises the driver; returns the result code. */
  static int init(int flags) {
    try {
      return (int) INIT.invokeExact(flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Version of CUDA that the driver supports: 1000 * major + 10 * minor. */
  static int driverVersion() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DRIVER_GET_VERSION.invokeExact(out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DRIVER_GET_VERSION);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Number of devices. */
  public static int count() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DEVICE_GET_COUNT.invokeExact(out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_GET_COUNT);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Handle of the device with an ordinal. */
  public static int device(int ordinal) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DEVICE_GET.invokeExact(out.address(), ordinal);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_GET);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Writes the name, zero-terminated, to {@code address}. */
  public static void name(long address, int bytes, int device) {
    int result;
    try {
      result = (int) DEVICE_GET_NAME.invokeExact(address, bytes, device);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.DEVICE_GET_NAME);
  }

  /** Bytes of memory. */
  public static long totalMemory(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) DEVICE_TOTAL_MEM.invokeExact(out.address(), device);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_TOTAL_MEM);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Value of an attribute. */
  public static int attribute(int attribute, int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DEVICE_GET_ATTRIBUTE.invokeExact(out.address(), attribute, device);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_GET_ATTRIBUTE);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Writes the bus id, zero-terminated, to {@code address}. */
  public static void pciBusId(long address, int bytes, int device) {
    int result;
    try {
      result = (int) DEVICE_GET_PCI_BUS_ID.invokeExact(address, bytes, device);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.DEVICE_GET_PCI_BUS_ID);
  }

  /** 1 if {@code device} can map memory of {@code peer}. */
  public static int canAccessPeer(int device, int peer) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DEVICE_CAN_ACCESS_PEER.invokeExact(out.address(), device, peer);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_CAN_ACCESS_PEER);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Value of an attribute of the link from {@code device} to {@code peer}. */
  public static int peerAttribute(int attribute, int device, int peer) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) DEVICE_GET_P2P_ATTRIBUTE.invokeExact(out.address(), attribute, device, peer);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_GET_P2P_ATTRIBUTE);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Retains the primary context, created if necessary; each retain needs one release. */
  public static long retainPrimaryContext(int device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) DEVICE_PRIMARY_CTX_RETAIN.invokeExact(out.address(), device);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.DEVICE_PRIMARY_CTX_RETAIN);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Releases the primary context. */
  public static void releasePrimaryContext(int device) {
    int result;
    try {
      result = (int) DEVICE_PRIMARY_CTX_RELEASE.invokeExact(device);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.DEVICE_PRIMARY_CTX_RELEASE);
  }

  /** Makes a context current for the calling thread; 0 makes none current. */
  public static void setCurrent(long context) {
    int result;
    try {
      result = (int) CTX_SET_CURRENT.invokeExact(context);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.CTX_SET_CURRENT);
  }

  /** The current context of the calling thread, or 0. */
  public static long current() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) CTX_GET_CURRENT.invokeExact(out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.CTX_GET_CURRENT);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Pushes a context onto the calling thread's stack. */
  static void pushCurrent(long context) {
    int result;
    try {
      result = (int) CTX_PUSH_CURRENT.invokeExact(context);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.CTX_PUSH_CURRENT);
  }

  /** Pops a context off the calling thread's stack. */
  static long popCurrent() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result;
      try {
        result = (int) CTX_POP_CURRENT.invokeExact(out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.CTX_POP_CURRENT);
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Waits for all work of the current context. */
  public static void synchronize() {
    int result;
    try {
      result = (int) CTX_SYNCHRONIZE.invokeExact();
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.CTX_SYNCHRONIZE);
  }

  /** Lets the current context use memory of {@code peerContext}; returns the result code. */
  public static int enablePeerAccess(long peerContext, int flags) {
    try {
      return (int) CTX_ENABLE_PEER_ACCESS.invokeExact(peerContext, flags);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the lowest and the highest priority as ints; the highest is the smaller number. */
  public static void streamPriorityRange(long lowest, long highest) {
    int result;
    try {
      result = (int) CTX_GET_STREAM_PRIORITY_RANGE.invokeExact(lowest, highest);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.CTX_GET_STREAM_PRIORITY_RANGE);
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
