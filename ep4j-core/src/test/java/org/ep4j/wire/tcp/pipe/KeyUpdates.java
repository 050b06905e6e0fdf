package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;

/**
 * Prints "arrived" for each exchange between two ends that write all they can before they read, and
 * change their keys meanwhile. In a JVM of its own, because TLS reads the limit of a key once.
 */
final class KeyUpdates {
  private static final int BYTES = 512 << 10;

  /** With these the updates come while the buffer behind the socket is full, or partly full. */
  private static final int[] SOCKET_BUFFERS = {16 << 10, 64 << 10};

  private static final long TIMEOUT = Duration.ofSeconds(30).toNanos();

  private final Pipe pipe;
  private final ByteBuffer out = ByteBuffer.allocate(BYTES);
  private final ByteBuffer in = ByteBuffer.allocate(BYTES);

  private KeyUpdates(Pipe pipe, int seed) {
    this.pipe = pipe;
    for (int i = 0; i < BYTES; i++) {
      out.put(i, (byte) (i * 31 + i / 997 + seed));
    }
  }

  public static void main(String[] args) throws IOException {
    java.security.Security.setProperty("jdk.tls.keyLimits", "AES/GCM/NoPadding KeyUpdate 2^17");
    for (int buffer : SOCKET_BUFFERS) {
      try (SocketPair sockets = SocketPair.open()) {
        limit(sockets.here(), buffer);
        limit(sockets.there(), buffer);
        System.out.println(exchange(sockets));
      }
    }
  }

  private static void limit(SocketChannel channel, int buffer) throws IOException {
    channel.setOption(StandardSocketOptions.SO_SNDBUF, buffer);
    channel.setOption(StandardSocketOptions.SO_RCVBUF, buffer);
  }

  private static String exchange(SocketPair sockets) throws IOException {
    Security security = Security.tls();
    KeyUpdates here = new KeyUpdates(security.asClient(sockets.here()), 1);
    KeyUpdates there = new KeyUpdates(security.asHost(sockets.there()), 2);
    long begin = System.nanoTime();
    while (here.in.hasRemaining() || there.in.hasRemaining()) {
      if (System.nanoTime() - begin > TIMEOUT) {
        return "stuck";
      }
      boolean written = true;
      while (written) {
        written = here.pipe.write(here.out) + there.pipe.write(there.out) > 0;
      }
      here.pipe.read(here.in);
      there.pipe.read(there.in);
    }
    boolean equal =
        here.in.flip().equals(there.out.flip()) && there.in.flip().equals(here.out.flip());
    return equal ? "arrived" : "other bytes arrived";
  }
}
