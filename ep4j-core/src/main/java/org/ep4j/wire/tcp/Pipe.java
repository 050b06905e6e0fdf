package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** Bytes to and from a peer, without blocking: a socket, or TLS on one. Used by one thread. */
interface Pipe {
  /** Reads what is there; -1 once the peer has ended its side. */
  int read(ByteBuffer target) throws IOException;

  /** Writes what fits, and takes no more than that from the buffer. */
  int write(ByteBuffer source) throws IOException;

  /** Whether bytes may be there that no selector knows of. */
  boolean holdsInput();

  /** Whether written bytes have not reached the socket yet; tries to bring them there. */
  boolean holdsOutput() throws IOException;

  /**
   * Bytes that were written and have not left for good, beside what {@link #holdsOutput} speaks of:
   * more may be written behind them.
   */
  default long inFlight() {
    return 0;
  }

  /** Whether all that was written is where the end of this side does not take it back. */
  default boolean mayEnd() throws IOException {
    return !holdsOutput();
  }

  /** Whether bytes come and go beside the socket, so that no selector knows when. */
  default boolean carried() {
    return false;
  }

  /** Ends this side: the peer reads what was written, then the end. */
  void end() throws IOException;

  /** The socket below. */
  SocketChannel channel();

  /** Gives it up as it is. */
  default void drop() throws IOException {
    channel().close();
  }

  /** What binds proofs to this very pipe; the same at both ends. 32 bytes. */
  byte[] binding();
}
