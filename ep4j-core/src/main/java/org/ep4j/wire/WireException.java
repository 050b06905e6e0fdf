package org.ep4j.wire;

import org.ep4j.Ep4jException;
import org.jspecify.annotations.Nullable;

/** A wire cannot be opened, or cannot do what it was asked for; the process stays usable. */
public class WireException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /** An error with a message. */
  public WireException(String message) {
    super(message);
  }

  /** An error with a message and its cause. */
  public WireException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
