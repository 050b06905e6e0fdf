package org.ep4j.cli.bench;

import java.io.PrintStream;
import java.util.Map;
import org.ep4j.cli.report.ReportPage;
import org.ep4j.cli.text.OutputFile;
import org.jspecify.annotations.Nullable;

/**
 * Files that a bench writes at its end.
 *
 * @param artifact the results as JSON; null: not written
 * @param page the results as a page; null: not written
 */
record ResultFiles(@Nullable OutputFile artifact, @Nullable OutputFile page) {
  /** The stream for tables: standard error if a file is standard output. */
  PrintStream tables() {
    return page != null && page.isStandardOutput() ? System.err : Artifact.tables(artifact);
  }

  /** Writes the files. */
  void write(Map<String, Object> tree) {
    if (artifact != null) {
      Artifact.write(artifact, tree);
    }
    if (page != null) {
      page.write(ReportPage.ofTree(tree));
    }
  }
}
