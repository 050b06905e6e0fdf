package org.ep4j.cli;

import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Packs everything for machines without Java. In a clone the script {@code ep4j} runs {@code
 * tools/bundle} instead, which needs the sources and a JDK. Only {@code --help} and calls outside a
 * clone reach this class.
 */
@Command(
    name = "bundle",
    sortOptions = false,
    description = {
      "Pack a runtime, all jars, the tests, the Python packages and a launcher into one archive.",
      "",
      "It runs on Linux machines of the same architecture that have neither Java nor a network."
          + " Unpack it anywhere: its ep4j has the same commands, and ep4j test [NAME]... runs its"
          + " tests. This command needs a clone of the sources.",
      ""
    })
final class BundleCommand implements Callable<Integer> {
  @Option(
      names = "--output",
      paramLabel = "FILE",
      description =
          "The archive, whose name ends in .tar.xz; default target/ep4j-VERSION-linux-ARCH.tar.xz.")
  private @Nullable Path output;

  @Option(names = "--no-tests", description = "Leave the tests out.")
  private boolean noTests;

  @Option(
      names = "--wheel",
      description =
          "Make a wheel for pip instead, without tests: the Python packages with runtime and jars;"
              + " --output names its directory, default target.")
  private boolean wheel;

  @Override
  public Integer call() {
    throw new CommandFailure(
        ErrorCode.NOT_A_CLONE,
        ExitCodes.USAGE,
        "ep4j bundle %s%s%sneeds a clone of the sources: call it in one"
            .formatted(
                output == null ? "" : "--output " + output + " ",
                noTests ? "--no-tests " : "",
                wheel ? "--wheel " : ""));
  }
}
