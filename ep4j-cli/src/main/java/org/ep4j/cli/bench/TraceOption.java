package org.ep4j.cli.bench;

import java.nio.file.Path;
import jdk.jfr.FlightRecorder;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The option for a trace of the timed iterations. */
@HelpGroup(HelpGroup.TIMING)
final class TraceOption {
  @Option(
      names = "--trace",
      paramLabel = "FILE",
      description =
          "Write every operation of the timed iterations, too, with the ranks that it waited for:"
              + " JSON for Perfetto (ui.perfetto.dev) or chrome://tracing (host engine). - is"
              + " standard output.")
  private @Nullable Path file;

  TraceOption() {}

  /**
   * The file, or null. Checked before the measurement, which takes long.
   *
   * @param onDevice whether the CUDA engine is measured
   * @param measures whether anything is measured
   * @param others the other files of the results
   */
  @Nullable OutputFile file(
      @Nullable CommandSpec spec, boolean onDevice, boolean measures, ResultFiles others) {
    if (file == null) {
      return null;
    }
    CommandSpecs.check(
        spec,
        measures,
        ErrorCode.INAPPLICABLE_OPTION,
        "--trace shows timed iterations, and tests time none: leave it out, or the test");
    CommandSpecs.check(
        spec,
        !onDevice,
        ErrorCode.TRACE_UNAVAILABLE,
        "--trace shows operations of the host engine; kernels of the CUDA engine report no single"
            + " operation: add --device host, or leave it out and use a profiler of the GPU");
    CommandSpecs.check(
        spec,
        FlightRecorder.isAvailable(),
        ErrorCode.TRACE_UNAVAILABLE,
        "--trace needs the flight recorder, which this JVM has not: leave out"
            + " -XX:-FlightRecorder");
    OutputFile trace = new OutputFile(file);
    String problem = trace.problem();
    CommandSpecs.check(
        spec, problem.isEmpty(), ErrorCode.BAD_TRACE_FILE, "--trace " + file + ": " + problem);
    CommandSpecs.check(
        spec,
        others.all().noneMatch(trace::isSameAs),
        ErrorCode.CONFLICTING_OPTIONS,
        "--trace names the same file as --json or --html, " + file + ": name another");
    return trace;
  }
}
