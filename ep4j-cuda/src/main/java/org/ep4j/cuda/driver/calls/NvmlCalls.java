package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/**
 * Binding of the driver's management library, as far as NVLink domains need it. Functions return
 * the library's result code.
 */
@SuppressWarnings("restricted") // links native functions
public final class NvmlCalls {
  /** Environment variable with the path of the library. */
  public static final String LIBRARY_VARIABLE = "EP4J_NVML_LIBRARY";

  /** Result of a call that succeeded; also the status of a completed registration. */
  public static final int NVML_SUCCESS = 0;

  /** Length of {@code clusterUuid}. */
  public static final int NVML_GPU_FABRIC_UUID_LEN = 16;

  /** The GPU is registered with its NVLink fabric. */
  public static final int NVML_GPU_FABRIC_STATE_COMPLETED = 3;

  /** {@code nvmlGpuFabricInfo_v2_t}. */
  public static final StructLayout FABRIC_INFO =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("version"),
              MemoryLayout.sequenceLayout(NVML_GPU_FABRIC_UUID_LEN, ValueLayout.JAVA_BYTE)
                  .withName("clusterUuid"),
              ValueLayout.JAVA_INT.withName("status"),
              ValueLayout.JAVA_INT.withName("cliqueId"),
              ValueLayout.JAVA_BYTE.withName("state"),
              MemoryLayout.paddingLayout(3),
              ValueLayout.JAVA_INT.withName("healthMask"))
          .withName("nvmlGpuFabricInfo_v2_t");

  /** {@code nvmlGpuFabricInfo_v2}: size and number of the version. */
  public static final int FABRIC_INFO_VERSION = (int) FABRIC_INFO.byteSize() | 2 << 24;

  private static final @Nullable MethodHandle INIT = link("nvmlInit_v2");
  private static final @Nullable MethodHandle DEVICE_GET_HANDLE_BY_PCI_BUS_ID =
      link("nvmlDeviceGetHandleByPciBusId_v2", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final @Nullable MethodHandle DEVICE_GET_GPU_FABRIC_INFO =
      link("nvmlDeviceGetGpuFabricInfoV", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);

  private NvmlCalls() {}

  /** Why NVLink domains cannot be asked for; empty if they can. */
  public static String problem() {
    if (NvmlLibrary.name().isEmpty()) {
      return NvmlLibrary.missing();
    }
    return INIT == null
            || DEVICE_GET_HANDLE_BY_PCI_BUS_ID == null
            || DEVICE_GET_GPU_FABRIC_INFO == null
        ? NvmlLibrary.name() + " knows no NVLink domains: they need driver 550 or newer"
        : "";
  }

  /** Initialises the library; repeated calls are allowed. */
  public static int init() {
    try {
      return (int) required(INIT).invokeExact();
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes the handle of the device at a PCI address. */
  public static int deviceByPciBusId(String pciBusId, MemorySegment device) {
    try (Arena arena = Arena.ofConfined()) {
      return (int)
          required(DEVICE_GET_HANDLE_BY_PCI_BUS_ID)
              .invokeExact(arena.allocateFrom(pciBusId).address(), device.address());
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  /** Writes {@link #FABRIC_INFO}, whose version the caller has set. */
  public static int gpuFabricInfo(long device, MemorySegment info) {
    try {
      return (int) required(DEVICE_GET_GPU_FABRIC_INFO).invokeExact(device, info.address());
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }

  private static MethodHandle required(@Nullable MethodHandle function) {
    if (function == null) {
      throw new IllegalStateException(problem());
    }
    return function;
  }

  private static @Nullable MethodHandle link(String symbol, MemoryLayout... parameters) {
    return NvmlLibrary.address(symbol)
        .map(
            address ->
                Linker.nativeLinker()
                    .downcallHandle(
                        address, FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters)))
        .orElse(null);
  }
}
