package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/**
 * Binding of the driver's functions for modules, kernels and launches. Every method throws a {@link
 * CudaException} that names the function, except those that return a result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class ModuleCalls {
  private static final MethodHandle MODULE_LOAD_DATA_EX = link(DriverFunction.MODULE_LOAD_DATA_EX);
  private static final MethodHandle MODULE_UNLOAD = link(DriverFunction.MODULE_UNLOAD);
  private static final MethodHandle MODULE_GET_FUNCTION = link(DriverFunction.MODULE_GET_FUNCTION);
  private static final MethodHandle MODULE_GET_GLOBAL = link(DriverFunction.MODULE_GET_GLOBAL);
  private static final MethodHandle FUNC_GET_ATTRIBUTE = link(DriverFunction.FUNC_GET_ATTRIBUTE);
  private static final MethodHandle FUNC_SET_ATTRIBUTE = link(DriverFunction.FUNC_SET_ATTRIBUTE);

  // Since CUDA 12.4.
  private static final @Nullable MethodHandle FUNC_LOAD =
      DriverLibrary.has(DriverFunction.FUNC_LOAD) ? link(DriverFunction.FUNC_LOAD) : null;
  private static final @Nullable MethodHandle FUNC_GET_PARAM_INFO =
      DriverLibrary.has(DriverFunction.FUNC_GET_PARAM_INFO)
          ? link(DriverFunction.FUNC_GET_PARAM_INFO)
          : null;

  private static final MethodHandle LAUNCH_KERNEL_EX = link(DriverFunction.LAUNCH_KERNEL_EX);
  private static final MethodHandle OCCUPANCY_MAX_ACTIVE_BLOCKS =
      link(DriverFunction.OCCUPANCY_MAX_ACTIVE_BLOCKS);
  private static final MethodHandle OCCUPANCY_MAX_ACTIVE_CLUSTERS =
      link(DriverFunction.OCCUPANCY_MAX_ACTIVE_CLUSTERS);

  private ModuleCalls() {}

  /** Loads a cubin; returns the result code, because the caller has the log. */
  public static int load(long module, long image, int optionCount, long options, long values) {
    try {
      return (int) MODULE_LOAD_DATA_EX.invokeExact(module, image, optionCount, options, values);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Unloads a module. */
  public static void unload(long module) {
    int result;
    try {
      result = (int) MODULE_UNLOAD.invokeExact(module);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.MODULE_UNLOAD);
  }

  /** Writes the handle of a kernel; returns the result code. */
  public static int function(long function, long module, long name) {
    try {
      return (int) MODULE_GET_FUNCTION.invokeExact(function, module, name);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes address and size of a variable; returns the result code. */
  public static int global(long address, long size, long module, long name) {
    try {
      return (int) MODULE_GET_GLOBAL.invokeExact(address, size, module, name);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Value of an attribute of a kernel. */
  public static int attribute(int attribute, long function) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) FUNC_GET_ATTRIBUTE.invokeExact(out.address(), attribute, function);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.FUNC_GET_ATTRIBUTE);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Sets an attribute of a kernel. */
  public static void setAttribute(long function, int attribute, int value) {
    int result;
    try {
      result = (int) FUNC_SET_ATTRIBUTE.invokeExact(function, attribute, value);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.FUNC_SET_ATTRIBUTE);
  }

  /** Forces the load of a kernel; older drivers load it when they return its handle. */
  public static void finishLoading(long function) {
    if (FUNC_LOAD == null) {
      return;
    }
    int result;
    try {
      result = (int) FUNC_LOAD.invokeExact(function);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.FUNC_LOAD);
  }

  /** Whether the driver has {@link #parameterInfo}. */
  public static boolean knowsParameters() {
    return FUNC_GET_PARAM_INFO != null;
  }

  /**
   * Writes offset and size of a parameter; returns the result code. Requires {@link
   * #knowsParameters}.
   */
  public static int parameterInfo(long function, long index, long offset, long size) {
    if (FUNC_GET_PARAM_INFO == null) {
      throw new IllegalStateException("the driver is older than cuFuncGetParamInfo");
    }
    try {
      return (int) FUNC_GET_PARAM_INFO.invokeExact(function, index, offset, size);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Launches a kernel in stream order. */
  public static void launch(long config, long function, long parameters, long extra) {
    int result;
    try {
      result = (int) LAUNCH_KERNEL_EX.invokeExact(config, function, parameters, extra);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    CudaException.check(result, DriverFunction.LAUNCH_KERNEL_EX);
  }

  /** Resident blocks of a kernel per SM. */
  public static int maxActiveBlocks(long function, int blockThreads, long dynamicSharedBytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result =
            (int)
                OCCUPANCY_MAX_ACTIVE_BLOCKS.invokeExact(
                    out.address(), function, blockThreads, dynamicSharedBytes);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.OCCUPANCY_MAX_ACTIVE_BLOCKS);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /** Clusters of a launch that fit on the device. */
  public static int maxActiveClusters(long function, long config) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result;
      try {
        result = (int) OCCUPANCY_MAX_ACTIVE_CLUSTERS.invokeExact(out.address(), function, config);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      CudaException.check(result, DriverFunction.OCCUPANCY_MAX_ACTIVE_CLUSTERS);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
