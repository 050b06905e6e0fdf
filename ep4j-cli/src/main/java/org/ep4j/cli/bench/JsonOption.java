package org.ep4j.cli.bench;

import java.nio.file.Path;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** The option for a JSON file with the results. */
@HelpGroup(HelpGroup.TIMING)
final class JsonOption {
  @Option(
      names = "--json",
      paramLabel = "FILE",
      description =
          "Write all results as JSON, too. - is standard output; tables then go to standard"
              + " error.")
  private @Nullable Path file;

  JsonOption() {}

  /** The file, or null. Checked before the measurement, which takes long. */
  @Nullable OutputFile file(@Nullable CommandSpec spec) {
    if (file == null) {
      return null;
    }
    OutputFile output = new OutputFile(file);
    String problem = output.problem();
    CommandSpecs.check(
        spec, problem.isEmpty(), ErrorCode.BAD_JSON_FILE, "--json " + file + ": " + problem);
    return output;
  }
}
