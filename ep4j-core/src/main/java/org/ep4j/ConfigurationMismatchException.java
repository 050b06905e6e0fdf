package org.ep4j;

/**
 * Ranks have different configurations at open, or call different operations at the same position.
 * The message names the rank and the difference.
 */
public final class ConfigurationMismatchException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** A mismatch; {@code message} names the rank and the field. */
  public ConfigurationMismatchException(String message) {
    super(message);
  }

  /**
   * @param code stable code of the error
   * @param text names the rank and the difference
   */
  public ConfigurationMismatchException(ErrorCode code, String text) {
    super(code, text);
  }
}
