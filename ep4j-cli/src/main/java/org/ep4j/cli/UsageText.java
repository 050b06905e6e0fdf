package org.ep4j.cli;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Messages of picocli about arguments, in the form of ep4j's own: {@code --tokens = 4k; it must be
 * a whole number}. A message that is not known stays as it is.
 */
final class UsageText {
  private static final String ARGUMENT =
      "Invalid value for (?:option '(?<option>[^']+)'(?: \\(\\S*\\))?"
          + "|positional parameter at index \\S+ \\((?<label>\\S+)\\)): ";

  private static final Pattern CHOICE =
      Pattern.compile(
          ARGUMENT
              + "expected one of \\[(?<limit>.*)] \\(case-insensitive\\) but was '(?<value>.*)'",
          Pattern.DOTALL);

  private static final Pattern VALUE =
      Pattern.compile(
          ARGUMENT + "'(?<value>.*)' is not an? (?<limit>int|long|double|path)", Pattern.DOTALL);

  private static final Pattern PAIR =
      Pattern.compile(
          "Value for option (?:option )?'(?<option>[^']+)'.* should be in KEY=VALUE format but was"
              + " (?<value>.*)",
          Pattern.DOTALL);

  private static final Pattern EXCLUSIVE =
      Pattern.compile("Error: (.*) are mutually exclusive \\(specify only one\\)");

  private static final Pattern UNMATCHED =
      Pattern.compile("Unmatched arguments? (?:at|from) index \\d+: (.*)", Pattern.DOTALL);

  private UsageText() {}

  /** The message in ep4j's words. */
  static String of(String message) {
    Matcher choice = CHOICE.matcher(message);
    if (choice.matches()) {
      return badValue(choice, "one of " + choice.group("limit").toLowerCase(Locale.ROOT));
    }
    Matcher typed = VALUE.matcher(message);
    if (typed.matches()) {
      return badValue(
          typed,
          switch (typed.group("limit")) {
            case "int" -> "a whole number up to " + Integer.MAX_VALUE;
            case "long" -> "a whole number";
            case "path" -> "the name of a file or directory";
            default -> "a number";
          });
    }
    Matcher pair = PAIR.matcher(message);
    if (pair.matches()) {
      return CommandSpecs.badValue(pair.group("option"), pair.group("value"), "KEY=VALUE");
    }
    Matcher exclusive = EXCLUSIVE.matcher(message);
    if (exclusive.matches()) {
      return exclusive.group(1) + " exclude each other: leave out all but one";
    }
    Matcher unmatched = UNMATCHED.matcher(message);
    if (unmatched.matches()) {
      return "unexpected " + unmatched.group(1) + ": leave it out";
    }
    return message;
  }

  private static String badValue(Matcher found, String limit) {
    String option = found.group("option");
    String name = option == null ? found.group("label") : option;
    String value = found.group("value");
    return CommandSpecs.badValue(name, value.isEmpty() ? "''" : value, limit);
  }
}
