package org.ep4j.cli.bench;

import java.util.List;
import org.ep4j.ErrorCode;
import org.ep4j.cli.CommandSpecs;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParseResult;

/** Refuses options of the kind of operation that is not measured: they would have no effect. */
final class KindOptions {
  private static final List<String> HIGH_THROUGHPUT =
      List.of("--layout", "--mode", "--apply-weights");
  private static final List<String> LOW_LATENCY =
      List.of("--max-tokens", "--logfmt", "--hook", "--partial", "--rank-major", "--zero-copy");

  private KindOptions() {}

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
