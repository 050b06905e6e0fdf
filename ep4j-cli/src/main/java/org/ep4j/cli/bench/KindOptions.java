package org.ep4j.cli.bench;

import java.util.List;
import java.util.Locale;
import org.ep4j.ErrorCode;
import org.ep4j.cli.CommandSpecs;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParseResult;

/** Refuses options that would have no effect. */
final class KindOptions {
  private static final List<String> HIGH_THROUGHPUT =
      List.of("--layout", "--mode", "--apply-weights");
  private static final List<String> LOW_LATENCY =
      List.of("--max-tokens", "--logfmt", "--hook", "--partial", "--rank-major", "--zero-copy");

  private static final List<String> TIMING =
      List.of("--iterations", "--warmup", "--buffers", "--against-nccl", "--with-nccl-traffic");

  private KindOptions() {}

  /** Refuses what a pressure test, which times nothing, does not use. */
  static void checkPressure(CommandSpec spec) {
    ParseResult given = spec.commandLine().getParseResult();
    for (String option : TIMING) {
      CommandSpecs.check(
          spec,
          !given.hasMatchedOption(option),
          ErrorCode.CONFLICTING_OPTIONS,
          option + " is for timing, and --pressure-test times nothing: leave one of them out");
    }
    String mode = given.matchedOptionValue("--mode", "exact").toLowerCase(Locale.ROOT);
    CommandSpecs.check(
        spec,
        mode.equals("exact") || mode.equals("static"),
        ErrorCode.CONFLICTING_OPTIONS,
        "--pressure-test dispatches with exact or static sizes: leave out --mode " + mode);
  }

  /** Refuses options of the kind of operation that is not measured. */
  static void check(CommandSpec spec, BenchSettings.Kind kind) {
    switch (kind) {
      case HT -> refuse(spec, LOW_LATENCY, "ll");
      case LL -> refuse(spec, HIGH_THROUGHPUT, "ht");
      case ALL -> {}
    }
  }

  private static void refuse(CommandSpec spec, List<String> options, String kind) {
    ParseResult given = spec.commandLine().getParseResult();
    for (String option : options) {
      CommandSpecs.check(
          spec,
          !given.hasMatchedOption(option),
          ErrorCode.INAPPLICABLE_OPTION,
          "%s is for %s only: leave it out, or measure %s or all".formatted(option, kind, kind));
    }
  }
}
