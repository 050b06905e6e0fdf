package org.ep4j.cli;

import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/** What picocli sets before it runs a command, and how a command refuses its arguments. */
public final class CommandSpecs {
  private CommandSpecs() {}

  /** The injected specification. */
  public static CommandSpec require(@Nullable CommandSpec spec) {
    return Objects.requireNonNull(spec, "picocli injects the command's specification");
  }

  /**
   * Refuses the command line unless {@code holds}.
   *
   * @param message the option, its value, and what it must be
   */
  public static void check(@Nullable CommandSpec spec, boolean holds, String message) {
    if (!holds) {
      throw new ParameterException(require(spec).commandLine(), message);
    }
  }
}
