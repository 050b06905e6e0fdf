package org.ep4j.wire.tcp.pipe;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;

/** Reads and writes whole messages on non-blocking pipes, until a deadline. */
public record DeadlinePipe(long endNanos) {
  private static final long PAUSE_MILLIS = 1;

  /** Reads exactly this number of bytes. */
  byte[] read(Pipe pipe, int bytes) throws IOException {
    ByteBuffer into = ByteBuffer.allocate(bytes);
    while (into.hasRemaining()) {
      int read = pipe.read(into);
      if (read < 0) {
        throw new EOFException("the peer has closed the connection");
      }
      if (read == 0) {
        pause("data of the peer");
      }
    }
    return into.array();
  }

  /** Writes everything. */
  void write(Pipe pipe, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining() || pipe.holdsOutput()) {
      if (pipe.write(bytes) == 0) {
        pause("the peer to read");
      }
    }
  }

  private void pause(String what) throws IOException {
    if (System.nanoTime() - endNanos > 0) {
      throw new IOException("timeout while waiting for " + what);
    }
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted while waiting for " + what, e);
    }
  }
}
