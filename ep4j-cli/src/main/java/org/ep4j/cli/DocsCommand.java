package org.ep4j.cli;

import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Makes the documentation as a site. In a clone the script {@code ep4j} runs {@code tools/docs}
 * instead, which needs the sources, a JDK and Maven. Only {@code --help} and calls outside a clone
 * reach this class.
 */
@Command(
    name = "docs",
    sortOptions = false,
    description = {
      "Make a site of static HTML from all pages and the Javadoc.",
      "",
      "Every link between pages is checked. This command needs a clone of the sources.",
      ""
    })
final class DocsCommand implements Callable<Integer> {
  @Option(
      names = "--output",
      paramLabel = "DIR",
      description = "The site; default target/docs. An earlier site there is replaced.")
  private @Nullable Path output;

  @Override
  public Integer call() {
    throw new CommandFailure(
        ErrorCode.NOT_A_CLONE,
        ExitCodes.USAGE,
        "ep4j docs %sneeds a clone of the sources: call it in one"
            .formatted(output == null ? "" : "--output " + output + " "));
  }
}
