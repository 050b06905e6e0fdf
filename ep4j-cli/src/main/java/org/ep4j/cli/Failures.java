package org.ep4j.cli;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;
import org.ep4j.cli.text.Style;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/** Reports failures: one message with its code; a stack trace only with {@code --verbose}. */
final class Failures {
  /** What the system says about a pipe whose reader has left. */
  private static final String READER_LEFT = "Broken pipe";

  /** What the JVM says when the kernel finds no page for mapped memory (SIGBUS). */
  private static final String FAULT = "unsafe memory access";

  private Failures() {}

  /** Reports the failure; returns its exit code. */
  static int report(Throwable failure, PrintWriter err, boolean verbose) {
    err.println(Style.detect().bad("ep4j: " + message(failure, OpenFiles::limit)));
    for (Throwable other : failure.getSuppressed()) {
      err.println("  also: " + message(other, OpenFiles::limit));
    }
    if (verbose) {
      failure.printStackTrace(err);
    }
    err.flush();
    return ExitCodes.of(failure);
  }

  /**
   * Reports lost standard output; returns the exit code. A reader that has seen enough closes its
   * end of a pipe: that needs no message.
   */
  static int reportOutput(@Nullable IOException failure, int code) {
    if (failure == null) {
      return code;
    }
    String reason = String.valueOf(failure.getMessage());
    if (!reason.contains(READER_LEFT)) {
      System.err.println(
          "ep4j: "
              + ErrorCode.OUTPUT_NOT_WRITTEN.message(
                  "standard output cannot be written: " + reason));
    }
    return code == ExitCodes.OK ? ExitCodes.FAILED : code;
  }

  /** Reports the wrong argument. */
  static int reportUsage(ParameterException failure, String[] arguments) {
    CommandLine command = failure.getCommandLine();
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    err.println(Style.detect().bad(name + ": " + usage(failure, arguments)));
    err.println(
        Spelling.of(failure, arguments)
            .map(nearest -> "Did you mean: " + nearest)
            .orElse("Try: " + name + " --help"));
    err.flush();
    return ExitCodes.USAGE;
  }

  /** The message about an argument, with the names that the user knows. */
  private static String usage(ParameterException failure, String[] arguments) {
    String message = String.valueOf(failure.getMessage());
    if (ErrorCode.of(failure).isPresent()) {
      return message;
    }
    Optional<String> misspelt = Spelling.misspelt(failure, arguments);
    if (misspelt.isPresent()) {
      return ErrorCode.UNKNOWN_OPTION.message("Unknown option: '%s'".formatted(misspelt.get()));
    }
    if (failure instanceof CommandLine.UnmatchedArgumentException unmatched) {
      Set<String> commands = failure.getCommandLine().getSubcommands().keySet();
      String first = unmatched.getUnmatched().getFirst();
      return commands.isEmpty() || first.startsWith("-")
          ? ErrorCode.UNKNOWN_OPTION.message(UsageText.of(message))
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
    return code(failure).message(UsageText.of(message));
  }

  /** The code of an error that picocli finds. */
  private static ErrorCode code(ParameterException failure) {
    return switch (failure) {
      case CommandLine.MissingParameterException _ -> ErrorCode.MISSING_ARGUMENT;
      case CommandLine.MutuallyExclusiveArgsException _ -> ErrorCode.CONFLICTING_OPTIONS;
      default -> ErrorCode.BAD_OPTION_VALUE;
    };
  }

  /**
   * The message, with a code; for an unexpected failure also its class.
   *
   * @param openFiles reads the limit of open files; not called for want of memory
   */
  static String message(Throwable failure, LongSupplier openFiles) {
    String message = failure.getMessage();
    if (message != null && ErrorCode.of(failure).isPresent()) {
      return message;
    }
    if (OpenFiles.lackedBy(failure)) {
      return OpenFiles.message(String.valueOf(failure.getMessage()), openFiles.getAsLong());
    }
    if (failure instanceof OutOfMemoryError) {
      return ErrorCode.NOT_ENOUGH_MEMORY.message(
          "the JVM is out of memory ("
              + message
              + "; largest heap "
              + (Runtime.getRuntime().maxMemory() >> 20)
              + " MiB): raise EP4J_HEAP (for example 8g), or -Xmx in a program that starts its own"
              + " JVM; or use fewer ranks or tokens");
    }
    if (failure instanceof InternalError && String.valueOf(message).contains(FAULT)) {
      return ErrorCode.NOT_ENOUGH_MEMORY.message(
          "a page of mapped memory could not be read or written: the memory of /dev/shm or of the"
              + " machine is used up, or another process shortened a file that is read; free"
              + " memory, or use fewer ranks or tokens");
    }
    long limit = openFiles.getAsLong();
    if (OpenFiles.suspect(limit)) {
      return OpenFiles.message(failure.toString(), limit);
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
