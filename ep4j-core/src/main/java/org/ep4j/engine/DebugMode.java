package org.ep4j.engine;

import java.util.Locale;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Debug mode of the buffers that are opened while the setting is on. Such a buffer overwrites
 * results with NaN patterns when they become outdated, and refuses rows of one dispatch with the
 * handle of another.
 */
public final class DebugMode {
  /** System property; takes precedence. */
  public static final String PROPERTY = "ep4j.debug";

  /** Environment variable. */
  public static final String VARIABLE = "EP4J_DEBUG";

  /** Every float type reads such bytes as NaN, and ids and source tokens are -1. */
  public static final byte POISON = -1;

  private DebugMode() {}

  /** Whether the setting is on. */
  public static boolean isOn() {
    return isOn(System.getProperty(PROPERTY), System.getenv(VARIABLE));
  }

  static boolean isOn(@Nullable String property, @Nullable String variable) {
    boolean given = property != null && !property.isBlank();
    String value = given ? property : variable;
    return switch (value == null ? "" : value.strip().toLowerCase(Locale.ROOT)) {
      case "true", "1" -> true;
      case "false", "0", "" -> false;
      default ->
          throw new InvalidArgumentException(
              ErrorCode.BUFFER_SETTING,
              given ? PROPERTY : VARIABLE,
              String.valueOf(value),
              "true or false",
              "correct the setting, or leave it out for false");
    };
  }

  /**
   * The error for rows that are the results of another dispatch than that of the handle.
   *
   * @param actual the dispatch of the rows
   * @param wanted the dispatch of the handle
   */
  public static InvalidArgumentException rowsOfOtherHandle(Tensor y, String actual, String wanted) {
    return Arguments.invalid(
        ErrorCode.ROWS_OF_OTHER_HANDLE,
        "y",
        y + " of " + actual,
        "rows of " + wanted + ", as the handle",
        "pass the rows and the handle of one dispatch");
  }
}
