package org.ep4j.cli;

import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Packs everything for machines without Java. The script {@code ep4j} of a clone does the work,
 * with {@code tools/bundle}: it needs the sources and a whole JDK. What arrives here asks for help,
 * or is not in a clone.
 */
@Command(
    name = "bundle",
    sortOptions = false,
    description = {
      "Pack a runtime, all jars, the tests and a launcher into one archive.",
      "",
      "It runs on Linux machines of the same architecture that have neither Java nor a network."
          + " Unpack it anywhere: its ep4j knows the same commands, and ep4j test [NAME]... runs the"
          + " tests in it. This command works in a clone of the sources only.",
      ""
    })
final class BundleCommand implements Callable<Integer> {
  @Option(
      names = "--output",
      paramLabel = "FILE",
      description =
          "The archive: .tar.xz (small) or .tar.gz (quick to make); default"
              + " target/ep4j-VERSION-linux-ARCH.tar.xz.")
  private @Nullable Path output;

  @Option(names = "--no-tests", description = "Leave the tests out.")
  private boolean noTests;

  @Override
  public Integer call() {
    throw new CommandFailure(
        ExitCodes.USAGE,
        "ep4j bundle %s%smakes bundles from a clone of the sources; this is not one"
            .formatted(
                output == null ? "" : "--output " + output + " ", noTests ? "--no-tests " : ""));
  }
}
