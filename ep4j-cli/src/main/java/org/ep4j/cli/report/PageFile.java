package org.ep4j.cli.report;

import java.nio.file.Path;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;

/** The file of a page. */
public final class PageFile {
  private PageFile() {}

  /** The file that the option names; refused if it cannot be created. Nothing is written yet. */
  public static OutputFile checked(@Nullable CommandSpec spec, String option, Path path) {
    OutputFile output = new OutputFile(path);
    String problem = output.problem();
    CommandSpecs.check(
        spec, problem.isEmpty(), ErrorCode.BAD_PAGE_FILE, option + " " + path + ": " + problem);
    return output;
  }
}
