package org.ep4j.wire.tcp;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;

/** Reads and writes whole messages on pipes that do not block, until a deadline. */
record DeadlinePipe(long endNanos) {
  private static final long PAUSE_MILLIS = 1;

  /** Reads exactly so many bytes. */
  byte[] read(Pipe pipe, int bytes) throws IOException {
    ByteBuffer into = ByteBuffer.allocate(bytes);
    while (into.hasRemaining()) {
      int read = pipe.read(into);
      if (read < 0) {
        throw new EOFException("the peer has hung up");
      }
      if (read == 0) {
        pause("the peer to speak");
      }
    }
    return into.array();
  }

  /** Writes everything. */
  void write(Pipe pipe, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining() || pipe.holdsOutput()) {
      if (pipe.write(bytes) == 0) {
        pause("the peer to listen");
      }
    }
  }

  private void pause(String what) throws IOException {
    if (System.nanoTime() - endNanos > 0) {
      throw new IOException("waited too long for " + what);
    }
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while waiting for " + what, e);
    }
  }
}
