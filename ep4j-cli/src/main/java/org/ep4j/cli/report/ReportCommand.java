package org.ep4j.cli.report;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Style;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Writes a page about recorded runs and recordings. */
@Command(
    name = "report",
    sortOptions = false,
    description = {
      "Write a page (HTML) about runs that bench ht, ll or all --json recorded, and about recordings"
          + " (JFR) of programs that call ep4j.",
      "",
      "The page is one file that loads nothing: results, plots, machine, configuration, and what"
          + " each figure means. With several files it compares each of the others with the first:"
          + " the ratio of the medians of every operation that both have, with a 95 %% confidence"
          + " interval from the single iterations. The comparison is printed as text, too.",
      "",
      "Recordings are those of the JDK's flight recorder, one or several of each rank: operations"
          + " over time, their durations, the waits between ranks, and timeouts, masks, resets and"
          + " other events. They may be named beside runs.",
      ""
    })
public final class ReportCommand implements Callable<Integer> {
  @Parameters(
      arity = "1..*",
      paramLabel = "FILE",
      description = "Artifacts of bench --json, recordings of the flight recorder, or both.")
  private List<Path> files = List.of();

  @Option(
      names = "--output",
      defaultValue = "report.html",
      paramLabel = "FILE",
      description = "The page; default ${DEFAULT-VALUE}. - is standard output.")
  private Path output = Path.of("report.html");

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public ReportCommand() {}

  @Override
  public Integer call() throws IOException {
    OutputFile page = PageFile.checked(spec, "--output", output);
    List<RunArtifact> runs = new ArrayList<>();
    List<Path> recordings = new ArrayList<>();
    for (Path file : files) {
      if (RecordingFiles.isRecording(file)) {
        recordings.add(file);
      } else {
        runs.add(RunArtifact.read(file));
      }
    }
    RecordingSection recorded =
        recordings.isEmpty()
            ? null
            : new RecordingSection(
                RecordingFiles.read(recordings), RecordingFiles.names(recordings));
    checkFiles();
    List<RunComparison> comparisons = new ArrayList<>();
    for (RunArtifact other : runs.subList(Math.min(1, runs.size()), runs.size())) {
      comparisons.add(RunComparison.of(runs.getFirst(), other));
    }
    page.write(ReportPage.of(runs, comparisons, recorded));
    CommandSpec command = CommandSpecs.require(spec);
    PrintWriter text =
        page.isStandardOutput() ? command.commandLine().getErr() : command.commandLine().getOut();
    comparisons.forEach(comparison -> text.println(comparison.text(Style.detect())));
    if (recorded != null) {
      text.println(recorded.text(Style.detect()));
    }
    if (!page.isStandardOutput()) {
      text.println("page      " + page);
    }
    text.flush();
    return ExitCodes.OK;
  }

  /** Refuses a run that is named twice, by another path or as a copy, and an input as output. */
  private void checkFiles() throws IOException {
    for (int i = 0; i < files.size(); i++) {
      CommandSpecs.check(
          spec,
          !Files.exists(output) || !Files.isSameFile(files.get(i), output),
          ErrorCode.BAD_PAGE_FILE,
          "--output %s: is the input %s: name another file".formatted(output, files.get(i)));
      for (int j = 0; j < i; j++) {
        if (Files.mismatch(files.get(i), files.get(j)) < 0) {
          throw new CommandFailure(
              ErrorCode.REPORT_SAME_RUN,
              ExitCodes.FAILED,
              "%s and %s hold the same run: name another file"
                  .formatted(files.get(j), files.get(i)));
        }
      }
    }
  }
}
