package org.ep4j.cli.bench;

import java.io.PrintStream;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.ep4j.cli.report.ReportPage;
import org.ep4j.cli.text.OutputFile;
import org.jspecify.annotations.Nullable;

/**
 * Files that a bench writes at its end.
 *
 * @param artifact the results as JSON; null: not written
 * @param page the results as a page; null: not written
 * @param trace the operations of the timed iterations; null: not written
 */
record ResultFiles(
    @Nullable OutputFile artifact, @Nullable OutputFile page, @Nullable OutputFile trace) {
  /** The same files with a trace. */
  ResultFiles with(@Nullable OutputFile written) {
    return new ResultFiles(artifact, page, written);
  }

  /** The files. */
  Stream<OutputFile> all() {
    return Stream.of(artifact, page, trace).filter(Objects::nonNull);
  }

  /** The stream for tables: standard error if a file is standard output. */
  PrintStream tables() {
    return all().anyMatch(OutputFile::isStandardOutput) ? System.err : System.out;
  }

  /**
   * Writes the files.
   *
   * @param operations of the timed iterations; null without a trace
   */
  void write(Map<String, Object> tree, @Nullable TraceText operations) {
    if (artifact != null) {
      Artifact.write(artifact, tree);
    }
    if (page != null) {
      page.write(ReportPage.ofTree(tree));
    }
    if (trace != null && operations != null) {
      trace.write(operations.of(tree));
    }
  }
}
