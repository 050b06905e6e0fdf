package org.ep4j.cli;

/** A failure with an exit code of its own; the message is for the user and needs no stack trace. */
public final class CommandFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int exitCode;

  /** A failure with one of {@link ExitCodes}. */
  public CommandFailure(int exitCode, String message) {
    super(message);
    this.exitCode = exitCode;
  }

  /** A failure with a cause, shown with {@code --verbose}. */
  public CommandFailure(int exitCode, String message, Throwable cause) {
    super(message, cause);
    this.exitCode = exitCode;
  }

  /** One of {@link ExitCodes}, or the exit code of a launched command. */
  public int exitCode() {
    return exitCode;
  }
}
