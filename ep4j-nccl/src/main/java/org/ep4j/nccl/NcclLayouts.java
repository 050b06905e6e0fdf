package org.ep4j.nccl;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** Structures and constants of NCCL that ep4j reads or writes. */
final class NcclLayouts {
  /** Oldest supported version: 2.28.3, the first with windows whose layout is known here. */
  static final int OLDEST = 22803;

  /** Tested version: if a library of at least this version is found, the search ends. */
  static final int KNOWN = 22809;

  static final int UNIQUE_ID_BYTES = 128;

  /** Passed by value. */
  static final StructLayout UNIQUE_ID =
      MemoryLayout.structLayout(
          MemoryLayout.sequenceLayout(UNIQUE_ID_BYTES, ValueLayout.JAVA_BYTE).withName("internal"));

  /**
   * The beginning of a communicator's configuration. It contains its own size and the version that it was written for; libraries treat the rest as unset.
   */
  static final StructLayout CONFIG =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("size"),
          ValueLayout.JAVA_INT.withName("magic"),
          ValueLayout.JAVA_INT.withName("version"),
          ValueLayout.JAVA_INT.withName("blocking"),
          MemoryLayout.paddingLayout(4));

  static final int CONFIG_MAGIC = 0xcafebeef;

  /** 2.14: the version that introduced {@code blocking}, without later fields. */
  static final int CONFIG_VERSION = 21400;

  /**
   * The beginning of a window on the device, in 2.28: the address of the memory of the node's first rank for this device, and the distance between the memories of consecutive ranks. Values read here are verified before use, see {@link WindowFields}.
   */
  static final StructLayout WINDOW =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("host"),
          ValueLayout.JAVA_LONG.withName("base"),
          ValueLayout.JAVA_INT.withName("rankInNode"),
          ValueLayout.JAVA_INT.withName("rank"),
          ValueLayout.JAVA_INT.withName("stride"),
          MemoryLayout.paddingLayout(4));

  /** Unit of the stride. */
  static final int STRIDE_SHIFT = 32;

  static final int SUCCESS = 0;
  static final int IN_PROGRESS = 7;

  /** Data type of sends and receives: bytes. */
  static final int BYTE = 0;

  /** Data type of all-reduce: 32-bit floats. */
  static final int FLOAT = 7;

  /** Operation of all-reduce. */
  static final int SUM = 0;

  private NcclLayouts() {}

  /** Offset of a field. */
  static long offset(StructLayout layout, String field) {
    return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
  }
}
