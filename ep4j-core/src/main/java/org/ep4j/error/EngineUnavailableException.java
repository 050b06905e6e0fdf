package org.ep4j.error;

/**
 * The requested engine cannot run on this machine. The message names what is missing, where the
 * search looked, and the remedy.
 */
public final class EngineUnavailableException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /**
   * @param code stable code of the error
   * @param text what is missing, where the search looked, and the remedy
   */
  public EngineUnavailableException(ErrorCode code, String text) {
    super(code, text);
  }
}
