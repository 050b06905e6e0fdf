package org.ep4j.cli.bench;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/**
 * Tests that run in place of a measurement. The flags have the names that they have in DeepEP's
 * tests, so that their command lines work here.
 */
final class TestOptions {
  static final String PRESSURE = "--pressure-test";
  static final String PRESSURE_MODE = "--pressure-test-mode";
  static final String COMPATIBILITY = "--test-ll-compatibility";
  static final String SHRINK = "--shrink-test";
  private static final String MNNVL = "--allow-mnnvl";

  /** Length of a test whose flag says none. */
  private static final String DEFAULT_SECONDS = "60";

  private static final int MAX_SECONDS = 7 * 24 * 3600;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = PRESSURE,
      arity = "0..1",
      fallbackValue = DEFAULT_SECONDS,
      paramLabel = "SECONDS",
      description =
          "Measure nothing: run random cases on one buffer for so long, 60 without a number, check"
              + " each with the oracle once, and compare the hashes of eight repetitions; all: both"
              + " kinds in turn.")
  private @Nullable Integer pressure;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = PRESSURE_MODE,
      paramLabel = "0|1",
      description = "As in DeepEP's tests: 1 is " + PRESSURE + ", 0 measures.")
  private @Nullable Integer pressureMode;

  @HelpGroup(HelpGroup.TIMING)
  @Option(
      names = COMPATIBILITY,
      description = "As in DeepEP's tests: the same as all " + PRESSURE + ".")
  private boolean compatibility;

  @HelpGroup(HelpGroup.LOW_LATENCY)
  @Option(
      names = SHRINK,
      description =
          "Measure nothing: the last rank skips operations, the others mask it, continue, and admit"
              + " it again; the oracle checks every operation (ll).")
  private boolean shrink;

  /** Known and without effect: NVLink between hosts is used where it can be. */
  @Option(names = MNNVL, hidden = true)
  @SuppressWarnings("UnusedVariable")
  private boolean mnnvl;

  /** Used by picocli. */
  TestOptions() {}

  /** Checks the options, and returns what they ask for. */
  BenchTests checked(CommandSpec spec) {
    CommandSpecs.checkValue(
        spec,
        pressure == null || (pressure >= 1 && pressure <= MAX_SECONDS),
        PRESSURE,
        String.valueOf(pressure),
        "1.." + MAX_SECONDS);
    if (pressureMode != null) {
      CommandSpecs.checkValue(
          spec,
          pressureMode == 0 || pressureMode == 1,
          PRESSURE_MODE,
          pressureMode,
          "0 or 1: a test measures nothing; for both, run bench again without the test");
      CommandSpecs.check(
          spec,
          pressureMode == 1 || (pressure == null && !compatibility),
          ErrorCode.CONFLICTING_OPTIONS,
          PRESSURE_MODE + " 0 asks for no test: leave it out, or leave the test out");
    }
    String test = name();
    CommandSpecs.check(
        spec,
        !shrink || test.equals(SHRINK),
        ErrorCode.CONFLICTING_OPTIONS,
        test + " and " + SHRINK + " exclude each other: leave one of them out");
    if (!test.isEmpty()) {
      KindOptions.checkTest(spec, test);
    }
    return new BenchTests(seconds(), shrink);
  }

  /** The option that asks for a test; empty if none does. */
  private String name() {
    if (pressure != null) {
      return PRESSURE;
    }
    if (compatibility) {
      return COMPATIBILITY;
    }
    if (pressureMode != null && pressureMode == 1) {
      return PRESSURE_MODE;
    }
    return shrink ? SHRINK : "";
  }

  /** Length of the pressure test; 0 for none. */
  private int seconds() {
    if (pressure != null) {
      return pressure;
    }
    String test = name();
    return test.isEmpty() || test.equals(SHRINK) ? 0 : Integer.parseInt(DEFAULT_SECONDS);
  }
}
