package org.ep4j.cli.report;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Two runs, operation by operation.
 *
 * @param first the run that the other is compared with
 * @param second the other run
 * @param pairs the operations of both
 */
record RunComparison(RunArtifact first, RunArtifact second, List<Pair> pairs) {
  /** What the words and the interval mean. */
  static final String NOTE =
      "faster or slower: the median time of the second run against that of the first; in brackets"
          + " the 95 % confidence interval, a bootstrap over blocks of neighbouring iterations. It"
          + " covers the scatter within these two runs. Two runs of one program may differ by more:"
          + " repeat the first run and compare it with itself";

  private static final String LOW_LATENCY_TOKENS = "ll_tokens";
  private static final List<String> TOKENS = List.of("tokens", LOW_LATENCY_TOKENS);

  /** Options that say what work an operation is. */
  private static final List<String> WORK =
      List.of(
          "tokens",
          LOW_LATENCY_TOKENS,
          "hidden",
          "topk",
          "experts",
          "ranks",
          "ranks_per_node",
          "routing",
          "topk_groups",
          "layout",
          "apply_weights",
          "order",
          "mode",
          "logfmt",
          "hook",
          "partial",
          "rank_major",
          "seed");

  /** Compares two runs. */
  static RunComparison of(RunArtifact first, RunArtifact second) {
    Map<String, List<Measured>> ofFirst = byWork(first);
    Map<String, List<Measured>> ofSecond = byWork(second);
    List<Pair> pairs = new ArrayList<>();
    ofFirst.forEach(
        (work, before) -> pairs.addAll(pairs(before, ofSecond.getOrDefault(work, List.of()))));
    if (pairs.isEmpty()) {
      throw new CommandFailure(
          ErrorCode.REPORT_NOTHING_IN_COMMON,
          ExitCodes.FAILED,
          "%s has %s, %s has %s; there is no operation to compare: name runs of the same kind"
              .formatted(first.name(), names(first), second.name(), names(second)));
    }
    return new RunComparison(first, second, List.copyOf(pairs));
  }

  private static String names(RunArtifact run) {
    return run.results().stream()
        .map(Measured::label)
        .distinct()
        .limit(4)
        .collect(Collectors.joining("; "));
  }

  private static Map<String, List<Measured>> byWork(RunArtifact run) {
    return run.results().stream()
        .collect(Collectors.groupingBy(Measured::work, LinkedHashMap::new, Collectors.toList()));
  }

  /** Pairs of equal variants, in their order; of one variant on each side, these two. */
  private static List<Pair> pairs(List<Measured> before, List<Measured> after) {
    List<Pair> pairs = new ArrayList<>();
    if (before.size() == 1 && after.size() == 1) {
      pairs.add(Pair.of(before.getFirst(), after.getFirst()));
      return pairs;
    }
    for (String variant : before.stream().map(Measured::variant).distinct().toList()) {
      List<Measured> ours = before.stream().filter(m -> m.variant().equals(variant)).toList();
      List<Measured> theirs = after.stream().filter(m -> m.variant().equals(variant)).toList();
      for (int i = 0; i < Math.min(ours.size(), theirs.size()); i++) {
        pairs.add(Pair.of(ours.get(i), theirs.get(i)));
      }
    }
    return pairs;
  }

  /** Options and facts of the machine that differ: name, first, second. */
  List<String[]> differences() {
    List<String[]> differences = new ArrayList<>();
    if (!first.version().equals(second.version())) {
      differences.add(new String[] {"ep4j", first.version(), second.version()});
    }
    collect(first.configuration(), second.configuration(), differences);
    collect(first.environment(), second.environment(), differences);
    return differences;
  }

  private static void collect(
      Map<String, String> before, Map<String, String> after, List<String[]> differences) {
    TreeSet<String> names = new TreeSet<>(before.keySet());
    names.addAll(after.keySet());
    for (String name : names) {
      String one = before.getOrDefault(name, "not recorded");
      String other = after.getOrDefault(name, "not recorded");
      if (!one.equals(other)) {
        differences.add(new String[] {name, one, other});
      }
    }
  }

  /** A warning if the runs did different work; else empty. */
  String otherWork() {
    String options =
        WORK.stream()
            .filter(this::isWorkOfPairs)
            .filter(name -> first.configuration().containsKey(name))
            .filter(name -> second.configuration().containsKey(name))
            .filter(name -> !first.option(name).equals(second.option(name)))
            .map(name -> "%s %s / %s".formatted(name, first.option(name), second.option(name)))
            .collect(Collectors.joining(", "));
    return options.isEmpty()
        ? ""
        : "These runs did different work ("
            + options
            + "): their times do not say which program is faster.";
  }

  /** Whether the option says what a pair did. Names of operations may say their tokens. */
  private boolean isWorkOfPairs(String option) {
    if (!TOKENS.contains(option)) {
      return true;
    }
    boolean lowLatency = option.equals(LOW_LATENCY_TOKENS);
    return pairs.stream()
        .map(Pair::before)
        .anyMatch(
            measured -> measured.lowLatency() == lowLatency && Double.isNaN(measured.tokens()));
  }

  /** The comparison for a terminal. */
  String text(Style style) {
    StringBuilder text = new StringBuilder();
    text.append(style.bold("first")).append("   ").append(first.name()).append('\n');
    text.append(style.bold("second")).append("  ").append(second.name()).append("\n\n");
    Table table = new Table("operation", "first", "second", "ratio");
    for (Pair pair : pairs) {
      table.row(
          pair.label(),
          Units.micros(pair.before().median()),
          Units.micros(pair.after().median()),
          Units.fixed(pair.medians(), 3));
    }
    text.append(table.render(style)).append('\n');
    for (Pair pair : pairs) {
      String words = pair.label() + ": " + pair.words();
      text.append(
              switch (pair.verdict()) {
                case FASTER -> style.good(words);
                case SLOWER -> style.bad(words);
                default -> words;
              })
          .append('\n');
    }
    if (!otherWork().isEmpty()) {
      text.append(style.warning(Wrapped.lines(otherWork(), Table.WIDTH))).append('\n');
    }
    return text.append(Wrapped.faint(style, NOTE)).toString();
  }

  /** What the samples show. */
  enum Verdict {
    FASTER,
    SLOWER,
    NO_DIFFERENCE,
    UNKNOWN
  }

  /**
   * An operation of both runs.
   *
   * @param interval null without enough samples
   */
  record Pair(Measured before, Measured after, @Nullable MedianRatio interval) {
    static Pair of(Measured before, Measured after) {
      boolean enough = enough(before) && enough(after);
      return new Pair(
          before, after, enough ? MedianRatio.of(before.samples(), after.samples()) : null);
    }

    private static boolean enough(Measured measured) {
      return measured.samples().length >= MedianRatio.FEWEST && !hasZero(measured);
    }

    private static boolean hasZero(Measured measured) {
      return Arrays.stream(measured.samples()).anyMatch(micros -> micros == 0);
    }

    /** The name of the operation; of different variants both. */
    String label() {
      return before.variant().equals(after.variant())
          ? before.label()
          : "%s, %s / %s".formatted(before.work(), before.variant(), after.variant());
    }

    /** The ratio of the medians. */
    double medians() {
      return after.median() / before.median();
    }

    Verdict verdict() {
      MedianRatio known = interval;
      if (known == null) {
        return Verdict.UNKNOWN;
      }
      return known.high() < 1
          ? Verdict.FASTER
          : known.low() > 1 ? Verdict.SLOWER : Verdict.NO_DIFFERENCE;
    }

    /** The result in words. */
    String words() {
      MedianRatio known = interval;
      if (known == null) {
        if (before.samples().length == 0 || after.samples().length == 0) {
          return "no interval: an artifact holds no single iterations";
        }
        return hasZero(before) || hasZero(after)
            ? "no interval: an iteration took 0 us, and a ratio needs more"
            : "no interval: %d and %d iterations, at least %d are needed"
                .formatted(before.samples().length, after.samples().length, MedianRatio.FEWEST);
      }
      double low = 100 * (known.low() - 1);
      double high = 100 * (known.high() - 1);
      double change = 100 * (known.ratio() - 1);
      return switch (verdict()) {
        case FASTER -> "faster by %.1f %% (95 %%: %.1f..%.1f)".formatted(-change, -high, -low);
        case SLOWER -> "slower by %.1f %% (95 %%: %.1f..%.1f)".formatted(change, low, high);
        default ->
            "no difference that these runs can show (95 %%: %+.1f..%+.1f %%)".formatted(low, high);
      };
    }
  }
}
