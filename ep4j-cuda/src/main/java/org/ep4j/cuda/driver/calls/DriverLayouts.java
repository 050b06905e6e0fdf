package org.ep4j.cuda.driver.calls;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** Structures of the driver API; a test compares them with the header if a header is installed. */
public final class DriverLayouts {
  /** {@code CUipcMemHandle}, passed by value. */
  public static final StructLayout IPC_HANDLE =
      MemoryLayout.structLayout(
              MemoryLayout.sequenceLayout(64, ValueLayout.JAVA_BYTE).withName("reserved"))
          .withName("CUipcMemHandle");

  /** {@code CUlaunchConfig}. */
  public static final StructLayout LAUNCH_CONFIG =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("gridDimX"),
              ValueLayout.JAVA_INT.withName("gridDimY"),
              ValueLayout.JAVA_INT.withName("gridDimZ"),
              ValueLayout.JAVA_INT.withName("blockDimX"),
              ValueLayout.JAVA_INT.withName("blockDimY"),
              ValueLayout.JAVA_INT.withName("blockDimZ"),
              ValueLayout.JAVA_INT.withName("sharedMemBytes"),
              MemoryLayout.paddingLayout(4),
              ValueLayout.JAVA_LONG.withName("hStream"),
              ValueLayout.JAVA_LONG.withName("attrs"),
              ValueLayout.JAVA_INT.withName("numAttrs"),
              MemoryLayout.paddingLayout(4))
          .withName("CUlaunchConfig");

  /** {@code CUlaunchAttribute}: the union of values always has 64 bytes. */
  public static final StructLayout LAUNCH_ATTRIBUTE =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("id"),
              MemoryLayout.paddingLayout(4),
              MemoryLayout.sequenceLayout(16, ValueLayout.JAVA_INT).withName("value"))
          .withName("CUlaunchAttribute");

  /** {@code CUmemAllocationProp} with its nested location and flags flattened. */
  public static final StructLayout ALLOCATION_PROPERTIES =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("type"),
              ValueLayout.JAVA_INT.withName("requestedHandleTypes"),
              ValueLayout.JAVA_INT.withName("location.type"),
              ValueLayout.JAVA_INT.withName("location.id"),
              ValueLayout.JAVA_LONG.withName("win32HandleMetaData"),
              ValueLayout.JAVA_BYTE.withName("allocFlags.compressionType"),
              ValueLayout.JAVA_BYTE.withName("allocFlags.gpuDirectRDMACapable"),
              ValueLayout.JAVA_SHORT.withName("allocFlags.usage"),
              MemoryLayout.paddingLayout(4))
          .withName("CUmemAllocationProp");

  /** {@code CUmemAccessDesc}. */
  public static final StructLayout ACCESS_DESCRIPTION =
      MemoryLayout.structLayout(
              ValueLayout.JAVA_INT.withName("location.type"),
              ValueLayout.JAVA_INT.withName("location.id"),
              ValueLayout.JAVA_INT.withName("flags"))
          .withName("CUmemAccessDesc");

  private DriverLayouts() {}

  /** Byte offset of a field. */
  public static long offset(StructLayout layout, String field) {
    return layout.byteOffset(PathElement.groupElement(field));
  }
}
