package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.channels.SocketChannel;

/** Makes pipes of sockets: as they are, or with TLS. One for all connections of a rank. */
interface Security {
  /** The pipe of who called. */
  Pipe asClient(SocketChannel channel) throws IOException;

  /** The pipe of who was called. */
  Pipe asHost(SocketChannel channel) throws IOException;

  /** Bytes travel as they are. */
  static Security none() {
    return new Security() {
      @Override
      public Pipe asClient(SocketChannel channel) {
        return new PlainPipe(channel);
      }

      @Override
      public Pipe asHost(SocketChannel channel) {
        return new PlainPipe(channel);
      }
    };
  }

  /** TLS 1.3 with a certificate of this rank's own making. */
  static Security tls() {
    return Tls.create();
  }
}
