package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLContext;

/** Makes pipes from sockets: plain, or with TLS. One object for all connections of a rank. */
public interface Security {
  /** The pipe of the connecting side. */
  Pipe asClient(SocketChannel channel) throws IOException;

  /** The pipe of the accepting side. */
  Pipe asHost(SocketChannel channel) throws IOException;

  /** Plain bytes. */
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

  /** TLS 1.3 with a self-signed certificate of this rank. */
  static Security tls() {
    return Tls.create();
  }

  /** TLS 1.3 with certificates of the caller, which both ends present and check. */
  static Security tls(SSLContext context) {
    return Tls.of(context);
  }
}
