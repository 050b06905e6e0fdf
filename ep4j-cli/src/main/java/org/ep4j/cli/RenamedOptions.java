package org.ep4j.cli;

import java.io.PrintWriter;
import java.util.Map;

/**
 * Renamed options of {@code bench}. This version accepts the old names, which the help does not
 * show, and warns.
 */
final class RenamedOptions {
  /** The new names by old name. */
  private static final Map<String, String> NEW_NAMES =
      Map.of("--beside-nccl", "--with-nccl-traffic", "--together", "--batch");

  private RenamedOptions() {}

  /** The arguments with new names. Commands that {@code launch} starts keep their arguments. */
  static String[] replace(String[] arguments, PrintWriter err) {
    if (arguments.length == 0 || !arguments[0].equals("bench")) {
      return arguments;
    }
    String[] replaced = arguments.clone();
    for (int i = 0; i < replaced.length; i++) {
      int end = replaced[i].indexOf('=');
      String option = end < 0 ? replaced[i] : replaced[i].substring(0, end);
      String newName = NEW_NAMES.get(option);
      if (newName != null) {
        err.println("ep4j: " + option + " is renamed: use " + newName);
        replaced[i] = newName + replaced[i].substring(option.length());
      }
    }
    return replaced;
  }
}
