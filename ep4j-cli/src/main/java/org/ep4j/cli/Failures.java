package org.ep4j.cli;

import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Set;
import org.ep4j.Ep4jException;
import org.ep4j.ErrorCode;
import org.ep4j.cli.text.Style;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Reports failures: one message with its code; a stack trace only with {@code --verbose}. */
final class Failures {
  private Failures() {}

  /** Reports the failure; returns its exit code. */
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

  /** Reports the wrong argument. */
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
    if (ErrorCode.of(failure).isPresent()) {
      return message;
    }
    if (failure instanceof CommandLine.UnmatchedArgumentException unmatched) {
      Set<String> commands = failure.getCommandLine().getSubcommands().keySet();
      String first = unmatched.getUnmatched().getFirst();
      return commands.isEmpty() || first.startsWith("-")
          ? ErrorCode.UNKNOWN_OPTION.message(message)
          : ErrorCode.UNKNOWN_COMMAND.message(
              "unknown command '%s': use one of %s".formatted(first, String.join(", ", commands)));
    }
    // picocli names the longest of several option names; the user may have passed another.
    if (failure.getArgSpec() instanceof CommandLine.Model.OptionSpec option) {
      for (String name : option.names()) {
        if (Arrays.stream(arguments)
            .anyMatch(given -> given.equals(name) || given.startsWith(name + "="))) {
          message = message.replace("'" + option.longestName() + "'", "'" + name + "'");
        }
      }
    }
    return code(failure).message(message);
  }

  /** The code of an error that picocli finds. */
  private static ErrorCode code(ParameterException failure) {
    return switch (failure) {
      case CommandLine.MissingParameterException _ -> ErrorCode.MISSING_ARGUMENT;
      case CommandLine.MutuallyExclusiveArgsException _ -> ErrorCode.CONFLICTING_OPTIONS;
      default -> ErrorCode.BAD_OPTION_VALUE;
    };
  }

  /** The message, with a code; for an unexpected failure also its class. */
  private static String message(Throwable failure) {
    String message = failure.getMessage();
    if (message != null && ErrorCode.of(failure).isPresent()) {
      return message;
    }
    boolean expected =
        failure instanceof Ep4jException
            || failure instanceof IllegalArgumentException
            || failure instanceof IllegalStateException
            || failure instanceof UncheckedIOException;
    if (expected && message != null) {
      return ErrorCode.COMMAND_FAILED.message(message);
    }
    return ErrorCode.UNEXPECTED_ERROR.message(
        failure.getClass().getSimpleName()
            + (message == null ? "" : ": " + message)
            + "; repeat with --verbose and report it");
  }
}
