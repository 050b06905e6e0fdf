package org.ep4j;

/**
 * A bad argument, noticed before anything was sent: which argument, its value, what is allowed and
 * how to mend it.
 */
public final class InvalidArgumentException extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  /** Name of the argument or configuration field. */
  private final String argument;

  /**
   * @param argument name of the argument or field
   * @param value what was passed, as text
   * @param limit what is allowed
   * @param remedy what to do
   */
  public InvalidArgumentException(String argument, String value, String limit, String remedy) {
    super(argument + " is " + value + "; it must be " + limit + ": " + remedy);
    this.argument = argument;
  }

  /** Name of the argument or configuration field. */
  public String argument() {
    return argument;
  }
}
