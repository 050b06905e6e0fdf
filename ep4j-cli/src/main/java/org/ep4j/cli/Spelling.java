package org.ep4j.cli;

import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.MissingParameterException;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * Names that a misspelt command, option or operation may mean. The suggestions of picocli name
 * unlike words, too ({@code bnech}: bench, launch), and know no operations.
 */
public final class Spelling {
  /** A slip of a third of the letters is another word. */
  private static final int LETTERS_PER_SLIP = 3;

  private Spelling() {}

  /** The names nearest to the argument that is unknown, all equally near; empty if none is near. */
  static Optional<String> of(ParameterException failure, String[] arguments) {
    CommandLine command = failure.getCommandLine();
    String given;
    if (failure instanceof UnmatchedArgumentException unmatched) {
      given = unmatched.getUnmatched().getFirst();
    } else {
      Optional<String> misspelt = misspelt(failure, arguments);
      if (misspelt.isEmpty()) {
        return Optional.empty();
      }
      given = misspelt.get();
    }
    return given.startsWith("-")
        ? nearest(given.split("=", 2)[0], options(command))
        : nearest(given, List.copyOf(command.getSubcommands().keySet()));
  }

  /**
   * The option that probably means a required one that is missing: picocli reports the missing one
   * only, although the user has given it under a wrong name.
   */
  static Optional<String> misspelt(ParameterException failure, String[] arguments) {
    if (!(failure instanceof MissingParameterException missing)) {
      return Optional.empty();
    }
    List<String> required =
        missing.getMissing().stream()
            .filter(argument -> argument instanceof OptionSpec)
            .flatMap(option -> Stream.of(((OptionSpec) option).names()))
            .toList();
    List<String> known = options(failure.getCommandLine());
    return Stream.of(arguments)
        .takeWhile(argument -> !argument.equals("--"))
        .map(argument -> argument.split("=", 2)[0])
        .filter(argument -> argument.startsWith("--") && !known.contains(argument))
        .filter(argument -> nearest(argument, required).isPresent())
        .findFirst();
  }

  private static List<String> options(CommandLine command) {
    return command.getCommandSpec().options().stream()
        .filter(option -> !option.hidden())
        .flatMap(option -> Stream.of(option.names()))
        .toList();
  }

  /**
   * The nearest of some names, all equally near, joined by "or"; empty if none is near.
   *
   * @param given the misspelt name
   */
  public static Optional<String> nearest(String given, List<String> names) {
    String word = given.toLowerCase(Locale.ROOT);
    int allowed = Math.max(1, word.replace("-", "").length() / LETTERS_PER_SLIP);
    Optional<Integer> least =
        names.stream().map(name -> slips(word, name)).min(Comparator.naturalOrder());
    return least
        .filter(distance -> distance <= allowed)
        .map(
            distance ->
                names.stream()
                    .filter(name -> slips(word, name) == distance)
                    .collect(Collectors.joining(" or ")));
  }

  /** The letters to insert, leave out, replace or swap with their neighbour. */
  static int slips(String one, String other) {
    int[][] slips = new int[one.length() + 1][other.length() + 1];
    for (int i = 0; i <= one.length(); i++) {
      for (int j = 0; j <= other.length(); j++) {
        if (i == 0 || j == 0) {
          slips[i][j] = i + j;
          continue;
        }
        boolean same = one.charAt(i - 1) == other.charAt(j - 1);
        int least = slips[i - 1][j - 1] + (same ? 0 : 1);
        least = Math.min(least, Math.min(slips[i - 1][j], slips[i][j - 1]) + 1);
        boolean swapped =
            i > 1
                && j > 1
                && one.charAt(i - 1) == other.charAt(j - 2)
                && one.charAt(i - 2) == other.charAt(j - 1);
        slips[i][j] = swapped ? Math.min(least, slips[i - 2][j - 2] + 1) : least;
      }
    }
    return slips[one.length()][other.length()];
  }
}
