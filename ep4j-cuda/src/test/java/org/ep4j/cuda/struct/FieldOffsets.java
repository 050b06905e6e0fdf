package org.ep4j.cuda.struct;

import java.lang.foreign.MemorySegment;
import java.lang.reflect.Field;
import java.util.Locale;

/** Where the host writes the fields of a structure, found by writing them. */
public final class FieldOffsets {
  private FieldOffsets() {}

  /**
   * Distance of a field from the start of {@code struct}, which is moved to other memory.
   *
   * @param name the name in kernels, with the member before a nested field: {@code receipt.ticket}
   */
  public static long of(Struct struct, String name) {
    // Ranks of a test share structures, and each call moves one.
    synchronized (struct) {
      return found(struct, name);
    }
  }

  private static long found(Struct struct, String name) {
    long[] memory = new long[struct.bytes() / Long.BYTES];
    struct.placeIn(MemorySegment.ofArray(memory));
    Object field = struct;
    for (String part : name.split("\\.", -1)) {
      field = fieldOf(field, part);
    }
    switch (field) {
      case Struct.U64 word -> word.set(-1);
      case Struct.Pointer address -> address.set(-1L);
      default -> throw new AssertionError(name + " is no word");
    }
    int at = 0;
    while (memory[at] == 0) {
      at++;
    }
    return (long) at * Long.BYTES;
  }

  private static Object fieldOf(Object struct, String name) {
    for (Field field : struct.getClass().getFields()) {
      if (inKernels(field.getName()).equals(name)) {
        return valueOf(field, struct);
      }
    }
    throw new AssertionError("no field " + name + " in " + struct.getClass().getName());
  }

  static Object valueOf(Field field, Object struct) {
    try {
      return field.get(struct);
    } catch (IllegalAccessException e) {
      throw new AssertionError(e);
    }
  }

  static String inKernels(String name) {
    return name.replaceAll("(?<=[a-z0-9])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
  }
}
