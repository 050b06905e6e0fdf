package org.ep4j.cli;

import java.io.PrintWriter;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Lists all error codes, or explains one. */
@Command(
    name = "errors",
    sortOptions = false,
    description = {
      "List all error codes, or explain one.",
      "",
      "Every error message of ep4j begins with a code, which does not change between versions.",
      ""
    })
final class ErrorsCommand implements Callable<Integer> {
  private static final String PREFIX = "EP4J-";

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "CODE",
      description = "The code to explain, for example EP4J-1000 or 1000; default: all codes.")
  private @Nullable String wanted;

  @Option(names = "--markdown", description = "Print all codes as docs/errors.md.")
  private boolean markdown;

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    CommandSpec command = CommandSpecs.require(spec);
    CommandSpecs.check(
        command,
        wanted == null || !markdown,
        ErrorCode.CONFLICTING_OPTIONS,
        "--markdown prints all codes: leave the option or the code out");
    PrintWriter out = command.commandLine().getOut();
    if (markdown) {
      out.print(ErrorsDocument.markdown());
    } else if (wanted == null) {
      list(out, Style.detect());
    } else {
      explain(out, Style.detect(), find(command, wanted));
    }
    out.flush();
    return ExitCodes.OK;
  }

  private static void list(PrintWriter out, Style style) {
    String blank = "";
    for (ErrorsDocument.Section section : ErrorsDocument.SECTIONS) {
      List<ErrorCode> codes = section.codes();
      if (!codes.isEmpty()) {
        out.print(blank);
        out.println(style.bold(section.heading()));
        codes.forEach(code -> out.println(line("  " + code.id() + "  ", code.cause())));
        blank = "\n";
      }
    }
  }

  private static void explain(PrintWriter out, Style style, ErrorCode code) {
    String id = code.id();
    out.println(style.bold(id) + line(id + "  ", code.cause()).substring(id.length()));
    out.println(line("Remedy:    ", code.remedy()));
  }

  /** Text behind its label, in lines below each other. */
  private static String line(String label, String text) {
    return label
        + Wrapped.lines(text, Table.WIDTH - label.length())
            .replace("\n", "\n" + " ".repeat(label.length()));
  }

  /** The code that the argument names, with or without its prefix. */
  private static ErrorCode find(CommandSpec command, String argument) {
    String upper = argument.toUpperCase(Locale.ROOT);
    String digits = upper.startsWith(PREFIX) ? upper.substring(PREFIX.length()) : upper;
    CommandSpecs.check(
        command,
        digits.matches("[0-9]{1,9}"),
        ErrorCode.UNKNOWN_ERROR_CODE,
        "'" + argument + "' is no error code: pass EP4J-1000 or 1000");
    int number = Integer.parseInt(digits);
    ErrorCode nearest = nearest(number);
    CommandSpecs.check(
        command,
        nearest.number() == number,
        ErrorCode.UNKNOWN_ERROR_CODE,
        "no error has the code '%s': the nearest is %s (%s)"
            .formatted(argument, nearest.id(), nearest.cause()));
    return nearest;
  }

  private static ErrorCode nearest(int number) {
    Optional<ErrorCode> nearest =
        Arrays.stream(ErrorCode.values())
            .min(
                Comparator.comparingInt((ErrorCode code) -> Math.abs(code.number() - number))
                    .thenComparingInt(ErrorCode::number));
    return nearest.orElseThrow();
  }
}
