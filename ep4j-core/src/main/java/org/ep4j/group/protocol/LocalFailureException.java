package org.ep4j.group.protocol;

import java.io.IOException;

/**
 * This process lacks what a connection needs, such as a free file descriptor: that says nothing
 * about the peer. Other packages ask {@link BlockingFrameChannel#failedHere}.
 */
final class LocalFailureException extends IOException {
  private static final long serialVersionUID = 1L;

  /** Opens a channel or a selector. */
  interface Opener<T> {
    T open() throws IOException;
  }

  LocalFailureException(IOException cause) {
    super(cause.getMessage(), cause);
  }

  /** What the opener opens; no failure of it is one of a peer. */
  static <T> T opened(Opener<T> opener) throws LocalFailureException {
    try {
      return opener.open();
    } catch (IOException e) {
      throw new LocalFailureException(e);
    }
  }
}
