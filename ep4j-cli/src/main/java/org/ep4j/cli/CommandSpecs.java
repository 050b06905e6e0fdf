package org.ep4j.cli;

import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;

/** What picocli sets before it runs a command. */
public final class CommandSpecs {
  private CommandSpecs() {}

  /** The injected specification. */
  public static CommandSpec require(@Nullable CommandSpec spec) {
    return Objects.requireNonNull(spec, "picocli injects the command's specification");
  }
}
