package org.ep4j.nvshmem;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** Structures and constants of NVSHMEM 3 that ep4j fills. */
final class NvshmemLayouts {
  /** Oldest supported version. */
  static final int OLDEST_MAJOR = 3;

  /** Newest supported version: another major version may have other versions of the structures. */
  static final int NEWEST_MAJOR = 3;

  /** Bootstrap with a unique id. */
  static final int INIT_WITH_UNIQUE_ID = 1 << 3;

  private static final AddressLayout POINTER = ValueLayout.ADDRESS;

  /** The id that the first rank creates and all ranks need. */
  static final StructLayout UNIQUE_ID =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("version"),
          MemoryLayout.sequenceLayout(124, ValueLayout.JAVA_BYTE).withName("internal"));

  /** The id with the numbers of this rank. */
  static final StructLayout UNIQUE_ID_ARGS =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("version"),
          MemoryLayout.paddingLayout(4),
          POINTER.withName("id"),
          ValueLayout.JAVA_INT.withName("rank"),
          ValueLayout.JAVA_INT.withName("ranks"));

  /** Arguments of the bootstrap methods. */
  static final StructLayout INIT_ARGS =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("version"),
          MemoryLayout.paddingLayout(4),
          UNIQUE_ID_ARGS.withName("uniqueId"),
          MemoryLayout.sequenceLayout(96, ValueLayout.JAVA_BYTE).withName("content"));

  /** The parameter of the initialisation. */
  static final StructLayout INIT_ATTRIBUTES =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("version"),
          MemoryLayout.paddingLayout(4),
          POINTER.withName("communicator"),
          INIT_ARGS.withName("args"));

  private static final int FIRST_LAYOUT = 1 << 16;

  private NvshmemLayouts() {}

  /** Identification of a structure: version of the layout and size. */
  static int version(StructLayout layout) {
    return FIRST_LAYOUT + (int) layout.byteSize();
  }

  /** Initialises a structure for an id. */
  static void markUniqueId(MemorySegment id) {
    id.set(ValueLayout.JAVA_INT, 0, version(UNIQUE_ID));
  }

  /** Initialises attributes and the structures in them. */
  static void markAttributes(MemorySegment attributes) {
    long args = offset(INIT_ATTRIBUTES, "args");
    long uniqueId = args + offset(INIT_ARGS, "uniqueId");
    attributes.set(ValueLayout.JAVA_INT, 0, version(INIT_ATTRIBUTES));
    attributes.set(ValueLayout.JAVA_INT, args, version(INIT_ARGS));
    attributes.set(ValueLayout.JAVA_INT, uniqueId, version(UNIQUE_ID_ARGS));
  }

  /** The numbers in attributes after NVSHMEM has written an id: rank, then ranks. */
  static int[] numbers(MemorySegment attributes) {
    long uniqueId = offset(INIT_ATTRIBUTES, "args") + offset(INIT_ARGS, "uniqueId");
    return new int[] {
      attributes.get(ValueLayout.JAVA_INT, uniqueId + offset(UNIQUE_ID_ARGS, "rank")),
      attributes.get(ValueLayout.JAVA_INT, uniqueId + offset(UNIQUE_ID_ARGS, "ranks"))
    };
  }

  /** Offset of a field. */
  static long offset(StructLayout layout, String field) {
    return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
  }
}
