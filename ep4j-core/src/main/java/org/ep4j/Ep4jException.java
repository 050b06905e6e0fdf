package org.ep4j;

import org.jspecify.annotations.Nullable;

/** Root of the errors that come from the world outside the call: peers, machines, libraries. */
public class Ep4jException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** An error with a message. */
  public Ep4jException(String message) {
    super(message);
  }

  /** An error with a message and its cause. */
  public Ep4jException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
