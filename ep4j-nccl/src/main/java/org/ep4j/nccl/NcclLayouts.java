package org.ep4j.nccl;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** Structures and numbers of NCCL that ep4j reads or fills. */
final class NcclLayouts {
  /** Oldest version that is used: 2.28.3, the first with windows whose content is known here. */
  static final int OLDEST = 22803;

  /** What was tried: where there is one as new as this, no other is looked for. */
  static final int KNOWN = 22809;

  static final int UNIQUE_ID_BYTES = 128;

  /** Passed by value. */
  static final StructLayout UNIQUE_ID =
      MemoryLayout.structLayout(
          MemoryLayout.sequenceLayout(UNIQUE_ID_BYTES, ValueLayout.JAVA_BYTE).withName("internal"));

  /**
   * The beginning of a communicator's configuration. It carries its own size and the version that
   * it was written for, and libraries take the rest as not set.
   */
  static final StructLayout CONFIG =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("size"),
          ValueLayout.JAVA_INT.withName("magic"),
          ValueLayout.JAVA_INT.withName("version"),
          ValueLayout.JAVA_INT.withName("blocking"),
          MemoryLayout.paddingLayout(4));

  static final int CONFIG_MAGIC = 0xcafebeef;

  /** 2.14: the version in which {@code blocking} came, and nothing after it. */
  static final int CONFIG_VERSION = 21400;

  /**
   * The beginning of a window on the device, in 2.28: where the memory of the first rank of the
   * node lies for this device, and how far apart those of the others lie. What is read here is
   * checked before it is believed, see {@link WindowFields}.
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

  /** Where a field of a structure lies. */
  static long offset(StructLayout layout, String field) {
    return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
  }
}
