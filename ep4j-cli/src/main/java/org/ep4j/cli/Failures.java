package org.ep4j.cli;

import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Set;
import org.ep4j.Ep4jException;
import org.ep4j.cli.text.Style;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** How failures are told: one message, no stack trace unless asked for. */
final class Failures {
  private Failures() {}

  /** Tells the failure and returns its exit code. */
  static int report(Throwable failure, PrintWriter err, boolean verbose) {
    err.println(Style.detect().bad("ep4j: " + message(failure)));
    for (Throwable other : failure.getSuppressed()) {
      err.println("  also: " + message(other));
    }
    if (verbose) {
      failure.printStackTrace(err);
    }
    err.flush();
    return ExitCodes.of(failure);
  }

  /** Tells which argument is wrong. */
  static int reportUsage(ParameterException failure, String[] arguments) {
    CommandLine command = failure.getCommandLine();
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    err.println(Style.detect().bad(name + ": " + usage(failure, arguments)));
    if (!CommandLine.UnmatchedArgumentException.printSuggestions(failure, err)) {
      err.println("Try: " + name + " --help");
    }
    err.flush();
    return ExitCodes.USAGE;
  }

  /** The message about an argument, with the names that the user knows. */
  private static String usage(ParameterException failure, String[] arguments) {
    String message = String.valueOf(failure.getMessage());
    if (failure instanceof CommandLine.UnmatchedArgumentException unmatched) {
      Set<String> commands = failure.getCommandLine().getSubcommands().keySet();
      String first = unmatched.getUnmatched().getFirst();
      return commands.isEmpty() || first.startsWith("-")
          ? message
          : "there is no command '%s'; there are %s".formatted(first, String.join(", ", commands));
    }
    // Of an option with several names the library tells the longest, also where another was given.
    if (failure.getArgSpec() instanceof CommandLine.Model.OptionSpec option) {
      for (String name : option.names()) {
        if (Arrays.stream(arguments)
            .anyMatch(given -> given.equals(name) || given.startsWith(name + "="))) {
          return message.replace("'" + option.longestName() + "'", "'" + name + "'");
        }
      }
    }
    return message;
  }

  /** The message of an expected failure; for the others also what kind of failure it is. */
  private static String message(Throwable failure) {
    String message = failure.getMessage();
    boolean expected =
        failure instanceof CommandFailure
            || failure instanceof Ep4jException
            || failure instanceof IllegalArgumentException
            || failure instanceof IllegalStateException
            || failure instanceof UncheckedIOException;
    if (expected && message != null) {
      return message;
    }
    return failure.getClass().getSimpleName()
        + (message == null ? "" : ": " + message)
        + (expected ? "" : " (--verbose shows where)");
  }
}
