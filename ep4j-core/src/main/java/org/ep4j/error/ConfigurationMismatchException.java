package org.ep4j.error;

/** Ranks disagree: on the configuration at open, or on which operation comes next. */
public final class ConfigurationMismatchException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /**
   * @param code stable code of the error
   * @param text which rank differs in which field, and what to do
   */
  public ConfigurationMismatchException(ErrorCode code, String text) {
    super(code, text);
  }
}
