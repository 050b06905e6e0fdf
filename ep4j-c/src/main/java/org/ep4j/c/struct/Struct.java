package org.ep4j.c.struct;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;

/**
 * A structure of {@code ep4j.h}: its fields in order, without padding. Each class that uses a
 * structure declares its fields in static initializers; a test compares all of them with the
 * header.
 */
public final class Struct {
  /**
   * More bytes than any version's inputs have: a larger size was never set, and nothing is read at
   * such a distance.
   */
  private static final long LARGEST = 4096;

  /** Offset of the field {@code size} of all structures but tensors. */
  public static final long SIZE = 0;

  /**
   * A field.
   *
   * @param offset first byte
   * @param bytes length
   */
  public record Field(String name, long offset, long bytes) {}

  private final String name;
  private final List<Field> fields = new ArrayList<>();
  private long size;

  private Struct(String name) {
    this.name = name;
  }

  /** A structure that begins with its size. */
  public static Struct named(String name) {
    Struct struct = new Struct(name);
    long ignored = struct.int64("size");
    return struct;
  }

  /** A structure that does not grow, and has no size. */
  static Struct fixed(String name) {
    return new Struct(name);
  }

  /** Appends an integer or pointer of eight bytes; returns its offset. */
  public long int64(String field) {
    return append(field, Long.BYTES, Long.BYTES);
  }

  /** Appends an integer or float of four bytes; returns its offset. */
  public long int32(String field) {
    return append(field, Integer.BYTES, Integer.BYTES);
  }

  /** Appends bytes; returns the offset of the first. */
  public long bytes(String field, int count) {
    return append(field, 1, count);
  }

  /** Appends another structure, or an array of eight-byte integers; returns its offset. */
  public long words(String field, long bytes) {
    return append(field, Long.BYTES, bytes);
  }

  private long append(String field, long alignment, long bytes) {
    if (size % alignment != 0) {
      throw new AssertionError(name + "." + field + " needs padding: reorder the fields");
    }
    long offset = size;
    fields.add(new Field(field, offset, bytes));
    size += bytes;
    return offset;
  }

  public String name() {
    return name;
  }

  public List<Field> fields() {
    return List.copyOf(fields);
  }

  /** Number of bytes. */
  public long size() {
    return size;
  }

  /**
   * Requires that the caller's structure exists and has all fields of this one. A version that
   * appends fields must accept the sizes of the versions before it.
   *
   * @param argument name of the parameter
   */
  public void require(String argument, long address) {
    requirePointer(argument, address);
    long given = NativeMemory.getLong(address + SIZE);
    if (given < size) {
      throw invalid(argument + "->size", given, "at least sizeof(" + name + ") = " + size);
    }
  }

  /** The same for a structure that is read: fields that this version does not know must be 0. */
  public void requireInput(String argument, long address) {
    require(argument, address);
    long given = NativeMemory.getLong(address + SIZE);
    if (given > LARGEST) {
      throw invalid(argument + "->size", given, "sizeof(" + name + "), " + size + " here");
    }
    for (long at = size; at < given; at++) {
      if (NativeMemory.getByte(address + at) != 0) {
        throw invalid(argument + "->size", given, size + ", what these jars know, or 0 behind it");
      }
    }
  }

  private static InvalidArgumentException invalid(String argument, long given, String limit) {
    return new InvalidArgumentException(
        ErrorCode.NATIVE_STRUCTURE,
        argument,
        Long.toString(given),
        limit,
        "set size to sizeof, and use the header of the same version as the jars");
  }

  /** Requires a pointer. */
  public static void requirePointer(String argument, long address) {
    if (address == 0) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_STRUCTURE,
          argument,
          "NULL",
          "a pointer",
          "pass the address of the memory");
    }
  }
}
