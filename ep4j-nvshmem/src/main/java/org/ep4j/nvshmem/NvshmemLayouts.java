package org.ep4j.nvshmem;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** Structures and numbers of NVSHMEM 3 that ep4j fills. */
final class NvshmemLayouts {
  /** Oldest version that is used. */
  static final int OLDEST_MAJOR = 3;

  /** Newest: structures carry their version, and another major version may have others. */
  static final int NEWEST_MAJOR = 3;

  /** How ranks meet: with a unique id. */
  static final int INIT_WITH_UNIQUE_ID = 1 << 3;

  private static final AddressLayout POINTER = ValueLayout.ADDRESS;

  /** What the first rank makes and all ranks need. */
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

  /** What the ways of meeting need. */
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

  /** What a structure carries to tell which one it is: number of the layout and size. */
  static int version(StructLayout layout) {
    return FIRST_LAYOUT + (int) layout.byteSize();
  }

  /** Marks a fresh structure for an id. */
  static void markUniqueId(MemorySegment id) {
    id.set(ValueLayout.JAVA_INT, 0, version(UNIQUE_ID));
  }

  /** Marks fresh attributes and the structures in them. */
  static void markAttributes(MemorySegment attributes) {
    long args = offset(INIT_ATTRIBUTES, "args");
    long uniqueId = args + offset(INIT_ARGS, "uniqueId");
    attributes.set(ValueLayout.JAVA_INT, 0, version(INIT_ATTRIBUTES));
    attributes.set(ValueLayout.JAVA_INT, args, version(INIT_ARGS));
    attributes.set(ValueLayout.JAVA_INT, uniqueId, version(UNIQUE_ID_ARGS));
  }

  /** The numbers that attributes carry after NVSHMEM has put an id in: rank, then ranks. */
  static int[] numbers(MemorySegment attributes) {
    long uniqueId = offset(INIT_ATTRIBUTES, "args") + offset(INIT_ARGS, "uniqueId");
    return new int[] {
      attributes.get(ValueLayout.JAVA_INT, uniqueId + offset(UNIQUE_ID_ARGS, "rank")),
      attributes.get(ValueLayout.JAVA_INT, uniqueId + offset(UNIQUE_ID_ARGS, "ranks"))
    };
  }

  /** Where a field of a structure lies. */
  static long offset(StructLayout layout, String field) {
    return layout.byteOffset(MemoryLayout.PathElement.groupElement(field));
  }
}
