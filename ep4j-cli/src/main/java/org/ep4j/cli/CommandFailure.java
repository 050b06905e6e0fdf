package org.ep4j.cli;

import org.ep4j.error.ErrorCode;

/** An error of a command with its exit code; the message needs no stack trace. */
public final class CommandFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final ErrorCode code;
  private final int exitCode;

  /**
   * @param code stable code of the error
   * @param exitCode one of {@link ExitCodes}, or the exit code of a launched command
   * @param text what is wrong, and what to do
   */
  public CommandFailure(ErrorCode code, int exitCode, String text) {
    super(code.message(text));
    this.code = code;
    this.exitCode = exitCode;
  }

  /** As above, with the error below, which {@code --verbose} shows. */
  public CommandFailure(ErrorCode code, int exitCode, String text, Throwable cause) {
    super(code.message(text), cause);
    this.code = code;
    this.exitCode = exitCode;
  }

  /** Stable code of the error. */
  public ErrorCode code() {
    return code;
  }

  /** One of {@link ExitCodes}, or the exit code of a launched command. */
  public int exitCode() {
    return exitCode;
  }
}
