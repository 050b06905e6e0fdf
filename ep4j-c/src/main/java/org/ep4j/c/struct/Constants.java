package org.ep4j.c.struct;

import java.util.Arrays;
import java.util.Locale;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** Enumerations as numbers of {@code ep4j.h}: the ordinal + 1. 0 stands for the default. */
public final class Constants {
  private Constants() {}

  /** The number of a constant. */
  public static int number(Enum<?> constant) {
    return constant.ordinal() + 1;
  }

  /** The constant with a number. */
  static <E extends Enum<E>> E of(String field, int number, E[] constants) {
    if (number < 1 || number > constants.length) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          field,
          Integer.toString(number),
          "1.." + constants.length + ", the constants of " + Arrays.toString(constants),
          "use the constants of ep4j.h");
    }
    return constants[number - 1];
  }

  /** The same; 0 is {@code otherwise}. */
  static <E extends Enum<E>> E of(String field, int number, E[] constants, E otherwise) {
    return number == 0 ? otherwise : of(field, number, constants);
  }

  /** Refuses what is neither 0 nor 1. */
  public static boolean flag(String field, int value) {
    if (value != 0 && value != 1) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          field,
          String.format(Locale.ROOT, "%d", value),
          "0 or 1",
          "set the whole structure to 0 first");
    }
    return value == 1;
  }
}
