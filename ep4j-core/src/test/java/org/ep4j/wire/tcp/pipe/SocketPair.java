package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** Two ends of a connection on this host. */
public record SocketPair(SocketChannel here, SocketChannel there) implements AutoCloseable {
  public static SocketPair open() throws IOException {
    try (ServerSocketChannel server = ServerSocketChannel.open()) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      SocketChannel here = SocketChannel.open(server.getLocalAddress());
      SocketChannel there = server.accept();
      here.configureBlocking(false);
      there.configureBlocking(false);
      return new SocketPair(here, there);
    }
  }

  @Override
  public void close() throws IOException {
    here.close();
    there.close();
  }
}
