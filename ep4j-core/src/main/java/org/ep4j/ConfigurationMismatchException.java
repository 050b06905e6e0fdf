package org.ep4j;

/** Ranks disagree: on the configuration at open, or on which operation comes next. */
public final class ConfigurationMismatchException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** A mismatch described by {@code message}: which rank differs in which field. */
  public ConfigurationMismatchException(String message) {
    super(message);
  }
}
