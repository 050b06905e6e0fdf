package org.ep4j.cli.report;

import java.util.List;
import java.util.Map;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Fields of a JSON object of an artifact, checked when they are read: the file may come from
 * anywhere.
 *
 * @param place the file and the path of the object in it, for messages
 * @param values the fields
 */
record Fields(String place, Map<?, ?> values) {
  /** A longer text is cut: a page is to be read. */
  private static final int MAX_TEXT = 400;

  /** The fields of {@code node}, which must be an object. */
  static Fields of(String place, @Nullable Object node) {
    if (node instanceof Map<?, ?> map) {
      return new Fields(place, map);
    }
    throw bad(place, node, "an object");
  }

  /** The place of a field: the file, and behind a colon the path in it. */
  private String at(String name) {
    return place + (place.contains(": ") ? "." : ": ") + name;
  }

  /** Whether the field exists and is not null. */
  boolean has(String name) {
    return values.get(name) != null;
  }

  /** The object in the field. */
  Fields object(String name) {
    return of(at(name), values.get(name));
  }

  /** The text in the field. */
  String text(String name) {
    if (values.get(name) instanceof String text) {
      return printable(text);
    }
    throw bad(at(name), values.get(name), "a text");
  }

  /** The finite number in the field, 0 or more. */
  double number(String name) {
    return checked(at(name), values.get(name));
  }

  /** The same; NaN without the field. */
  double numberOrNaN(String name) {
    return has(name) ? number(name) : Double.NaN;
  }

  /** The items of the list in the field. */
  List<?> list(String name) {
    if (values.get(name) instanceof List<?> items) {
      return items;
    }
    throw bad(at(name), values.get(name), "a list");
  }

  /** The numbers of the list in the field; none without it. */
  double[] numbers(String name) {
    if (!has(name)) {
      return new double[0];
    }
    List<?> items = list(name);
    double[] numbers = new double[items.size()];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = checked("%s[%d]".formatted(at(name), i), items.get(i));
    }
    return numbers;
  }

  private static double checked(String place, @Nullable Object value) {
    if (value instanceof Number number
        && Double.isFinite(number.doubleValue())
        && number.doubleValue() >= 0) {
      return number.doubleValue();
    }
    throw bad(place, value, "a number, 0 or more");
  }

  /** The text without what a terminal or a browser would obey, and not too long. */
  static String printable(String text) {
    String shown = text.replaceAll("[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}]", "\uFFFD");
    return shown.length() <= MAX_TEXT ? shown : shown.substring(0, MAX_TEXT) + "…";
  }

  /** An error about a value of an artifact. */
  static CommandFailure bad(String place, @Nullable Object value, String limit) {
    String found =
        switch (value) {
          case null -> "missing";
          case Map<?, ?> _ -> "an object";
          case List<?> _ -> "a list";
          default -> printable(value.toString());
        };
    return new CommandFailure(
        ErrorCode.ARTIFACT_INVALID,
        ExitCodes.FAILED,
        "%s is %s; it must be %s: name a file that bench ht, ll or all --json wrote"
            .formatted(place, found, limit));
  }
}
