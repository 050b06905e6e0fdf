package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * Non-blocking byte stream to and from a peer: a socket, or TLS on a socket. Used by one thread.
 */
public interface Pipe {
  /** Reads available bytes; -1 after the peer has ended its side. */
  int read(ByteBuffer target) throws IOException;

  /** Writes as much as fits, and consumes only that from the buffer. */
  int write(ByteBuffer source) throws IOException;

  /** Whether there may be bytes that no selector reports. */
  boolean holdsInput();

  /** Whether written bytes have not reached the socket yet; tries to move them there. */
  boolean holdsOutput() throws IOException;

  /**
   * Written bytes that have not left irrevocably, in addition to those of {@link #holdsOutput}:
   * more may be written behind them.
   */
  default long inFlight() {
    return 0;
  }

  /** Whether ending this side loses no written bytes. */
  default boolean mayEnd() throws IOException {
    return !holdsOutput();
  }

  /** Whether bytes bypass the socket, so that no selector reports them. */
  default boolean carried() {
    return false;
  }

  /** Ends this side: the peer reads what was written, then the end. */
  void end() throws IOException;

  /** The socket below. */
  SocketChannel channel();

  /** Closes the pipe immediately. */
  default void drop() throws IOException {
    channel().close();
  }

  /**
   * 32 bytes that bind proofs to this pipe; the same at both ends.
   *
   * @throws IOException if this pipe cannot make them; then no proof can be given on it
   */
  byte[] binding() throws IOException;
}
