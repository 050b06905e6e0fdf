package org.ep4j.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.error.ErrorCode;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.ScopeType;

/**
 * Refuses what stands before a subcommand and would have no effect: picocli reads it for the
 * command above, and only the subcommand runs.
 */
final class PrecedingArguments {
  private PrecedingArguments() {}

  /** Refuses arguments of all commands but the last one. */
  static void check(ParseResult parsed) {
    for (ParseResult above = parsed; above.hasSubcommand(); above = above.subcommand()) {
      List<String> useless = new ArrayList<>();
      for (ArgSpec argument : above.matchedArgs()) {
        if (argument.scopeType() != ScopeType.INHERIT) {
          useless.addAll(names(argument, parsed.originalArgs()));
        }
      }
      String subcommand = above.subcommand().commandSpec().name();
      CommandSpecs.check(
          above.commandSpec(),
          useless.isEmpty(),
          ErrorCode.INAPPLICABLE_OPTION,
          "%s before %s would have no effect: put the options of %s behind it, and leave others out"
              .formatted(String.join(", ", useless), subcommand, subcommand));
    }
  }

  /** An option under the name that the user gave it, or the values of a positional argument. */
  private static List<String> names(ArgSpec argument, List<String> given) {
    return argument instanceof OptionSpec option
        ? Stream.of(option.names())
            .filter(name -> given.stream().anyMatch(word -> word.split("=", 2)[0].equals(name)))
            .toList()
        : argument.originalStringValues();
  }
}
