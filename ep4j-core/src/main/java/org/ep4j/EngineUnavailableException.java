package org.ep4j;

/**
 * The wanted engine cannot run here; the message says what was looked for, where, and what helps.
 */
public final class EngineUnavailableException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** An engine is unavailable for the reason in {@code message}. */
  public EngineUnavailableException(String message) {
    super(message);
  }
}
