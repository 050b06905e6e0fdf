package org.ep4j.cli;

import java.util.Objects;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/** The specification that picocli injects, and errors about the arguments of a command. */
public final class CommandSpecs {
  private CommandSpecs() {}

  /** The injected specification. */
  public static CommandSpec require(@Nullable CommandSpec spec) {
    return Objects.requireNonNull(spec, "picocli injects the command's specification");
  }

  /**
   * Refuses the command line unless {@code holds}.
   *
   * @param text what is wrong, and what to do
   */
  public static void check(@Nullable CommandSpec spec, boolean holds, ErrorCode code, String text) {
    if (!holds) {
      throw usage(require(spec), code, text);
    }
  }

  /**
   * Refuses the value of an option unless {@code holds}.
   *
   * @param limit the allowed values
   */
  public static void checkValue(
      @Nullable CommandSpec spec, boolean holds, String option, Object value, String limit) {
    check(spec, holds, ErrorCode.BAD_OPTION_VALUE, badValue(option, value, limit));
  }

  /** The text of {@link ErrorCode#BAD_OPTION_VALUE}. */
  public static String badValue(String option, Object value, String limit) {
    return option + " = " + value + "; it must be " + limit;
  }

  /** An error about the arguments of a command. */
  public static ParameterException usage(CommandSpec spec, ErrorCode code, String text) {
    return new ParameterException(spec.commandLine(), code.message(text));
  }
}
