package org.ep4j.memory;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * Loads and stores at absolute native addresses. Engines keep addresses as {@code long}, so own,
 * peer and caller memory are handled alike and the hot path allocates nothing.
 *
 * <p>No bounds are checked: callers pass addresses inside memory that they have checked and keep
 * alive. Acquire and release accesses must be naturally aligned.
 */
@SuppressWarnings("restricted") // all of the address space as one segment is what this class is for
public final class NativeMemory {
  private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
  private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();

  private NativeMemory() {}

  /** Load with acquire order. */
  public static long getLongAcquire(long address) {
    return (long) LONG.getAcquire(ALL, address);
  }

  /** Store with release order. */
  public static void putLongRelease(long address, long value) {
    LONG.setRelease(ALL, address, value);
  }

  /** Writes a word without changing it, also while others write: its page then has memory. */
  static void touch(long address) {
    long ignored = (long) LONG.getAndAdd(ALL, address, 0L);
  }

  /** Load with acquire order; throws instead of crashing if the arena of the segment is closed. */
  public static long getLongAcquire(MemorySegment segment, long offset) {
    return (long) LONG.getAcquire(segment, offset);
  }

  /** Store with release order; throws instead of crashing if the arena of the segment is closed. */
  public static void putLongRelease(MemorySegment segment, long offset, long value) {
    LONG.setRelease(segment, offset, value);
  }

  /** Plain load. */
  public static long getLong(long address) {
    return ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, address);
  }

  /** Plain store. */
  public static void putLong(long address, long value) {
    ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, address, value);
  }

  /** Plain load. */
  public static int getInt(long address) {
    return ALL.get(ValueLayout.JAVA_INT_UNALIGNED, address);
  }

  /** Plain store. */
  public static void putInt(long address, int value) {
    ALL.set(ValueLayout.JAVA_INT_UNALIGNED, address, value);
  }

  /** Plain load. */
  public static float getFloat(long address) {
    return ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, address);
  }

  /** Plain store. */
  public static void putFloat(long address, float value) {
    ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, address, value);
  }

  /** Plain load. */
  public static short getShort(long address) {
    return ALL.get(ValueLayout.JAVA_SHORT_UNALIGNED, address);
  }

  /** Plain store. */
  public static void putShort(long address, short value) {
    ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, address, value);
  }

  /** Plain load. */
  public static byte getByte(long address) {
    return ALL.get(ValueLayout.JAVA_BYTE, address);
  }

  /** Plain store. */
  public static void putByte(long address, byte value) {
    ALL.set(ValueLayout.JAVA_BYTE, address, value);
  }

  /** Copies {@code bytes} bytes; the ranges do not overlap. */
  public static void copy(long source, long target, long bytes) {
    MemorySegment.copy(ALL, source, ALL, target, bytes);
  }

  /** Copies {@code count} floats from a native address of any alignment. */
  public static void copy(long source, float[] target, int count) {
    MemorySegment.copy(ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, source, target, 0, count);
  }

  /** Copies from any segment, heap segments included, to a native address. */
  public static void copy(MemorySegment source, long offset, long target, long bytes) {
    MemorySegment.copy(source, offset, ALL, target, bytes);
  }

  /** Copies from a native address into any segment. */
  public static void copy(long source, MemorySegment target, long offset, long bytes) {
    MemorySegment.copy(ALL, source, target, offset, bytes);
  }

  /** Sets {@code bytes} bytes to {@code value}. */
  public static void fill(long address, long bytes, byte value) {
    // A slice to fill would be an object, and a warm loop must not allocate.
    long pattern = (value & 0xffL) * 0x0101_0101_0101_0101L;
    long at = address;
    for (long end = address + (bytes & -Long.BYTES); at < end; at += Long.BYTES) {
      putLong(at, pattern);
    }
    for (long end = address + bytes; at < end; at++) {
      putByte(at, value);
    }
  }

  /** A bounded view that rejects access after {@code arena} is closed; does not own the memory. */
  public static MemorySegment view(long address, long bytes, Arena arena) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
  }

  /** A bounded view, valid as long as the memory behind it. */
  public static MemorySegment view(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }
}
