package org.ep4j.group.protocol;

import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.group.JobKey;
import org.ep4j.group.TakenDescriptors;

/**
 * A process that is to accept a connection when it has no free descriptor, and has not logged yet.
 */
final class NoFreeDescriptor {
  private static final long LIMIT_SECONDS = 30;

  private NoFreeDescriptor() {}

  public static void main(String[] arguments) throws Exception {
    var printed = new CountDownLatch(1);
    System.setErr(
        new PrintStream(System.err, true) {
          @Override
          public void flush() {
            super.flush();
            printed.countDown();
          }
        });
    var reactor = new Reactor("test", Duration.ofMillis(20), Duration.ofSeconds(2));
    var acceptor =
        new Acceptor(
            reactor,
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
            1,
            JobKey.random(),
            Frames.Purpose.PEER,
            connection -> {});
    var started = new CountDownLatch(1);
    reactor.post(started::countDown);
    reactor.start(() -> {}, System.err::println);
    started.await(LIMIT_SECONDS, TimeUnit.SECONDS);
    // Its descriptor is there before the others are gone.
    SocketChannel client = SocketChannel.open();

    try (TakenDescriptors _ = new TakenDescriptors()) {
      client.connect(acceptor.address());
      printed.await(LIMIT_SECONDS, TimeUnit.SECONDS);
    }
    Runtime.getRuntime().halt(0);
  }
}
