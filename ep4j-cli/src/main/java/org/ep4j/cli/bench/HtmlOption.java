package org.ep4j.cli.bench;

import java.nio.file.Path;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.report.PageFile;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The option for a page with the results. */
@HelpGroup(HelpGroup.TIMING)
final class HtmlOption {
  @Option(
      names = "--html",
      paramLabel = "FILE",
      description =
          "Write a page with plots of all results, too: one file that loads nothing. - is standard"
              + " output.")
  private @Nullable Path file;

  HtmlOption() {}

  /**
   * The file, or null. Checked before the measurement, which takes long.
   *
   * @param artifact the file of {@code --json}, or null
   * @param measures whether anything is measured
   */
  @Nullable OutputFile file(
      @Nullable CommandSpec spec, @Nullable OutputFile artifact, boolean measures) {
    if (file == null) {
      return null;
    }
    CommandSpecs.check(
        spec,
        measures,
        ErrorCode.INAPPLICABLE_OPTION,
        "--html shows measured times, and tests measure none: leave it out, or the test");
    OutputFile page = PageFile.checked(spec, "--html", file);
    CommandSpecs.check(
        spec,
        artifact == null || !page.isSameAs(artifact),
        ErrorCode.CONFLICTING_OPTIONS,
        "--html and --json name the same file, " + file + ": name two");
    return page;
  }
}
