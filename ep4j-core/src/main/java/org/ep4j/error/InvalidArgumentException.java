package org.ep4j.error;

/**
 * An invalid argument, detected before anything is sent. The message contains the argument, its
 * value, the allowed values and the remedy.
 */
public final class InvalidArgumentException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  /** Name of the argument or configuration field. */
  private final String argument;

  private final ErrorCode code;

  /**
   * @param code stable code of the error
   * @param argument name of the argument or field
   * @param value the value, as text
   * @param limit the allowed values
   * @param remedy what to do
   */
  public InvalidArgumentException(
      ErrorCode code, String argument, String value, String limit, String remedy) {
    super(code.message(argument + " = " + value + "; it must be " + limit + ": " + remedy));
    this.argument = argument;
    this.code = code;
  }

  /** Stable code of the error. */
  public ErrorCode errorCode() {
    return code;
  }

  /** Name of the argument or configuration field. */
  public String argument() {
    return argument;
  }
}
