package org.ep4j.cli;

import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** Prints the version of ep4j, the JVM and the system. */
@Command(name = "version", description = "Print the version of ep4j, its git revision and the JDK.")
final class VersionCommand implements Callable<Integer> {
  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    CommandSpecs.require(spec).commandLine().getOut().println(String.join("\n", lines()));
    return ExitCodes.OK;
  }

  private static String[] lines() {
    return new String[] {
      "ep4j " + Build.version() + " (git " + Build.revision() + ")",
      "Java "
          + Runtime.version()
          + ", "
          + System.getProperty("java.vendor")
          + ", "
          + System.getProperty("java.vm.name"),
      System.getProperty("os.name")
          + " "
          + System.getProperty("os.version")
          + ", "
          + System.getProperty("os.arch")
    };
  }

  /** The same for {@code --version}. */
  static final class Provider implements IVersionProvider {
    @Override
    public String[] getVersion() {
      return lines();
    }
  }
}
