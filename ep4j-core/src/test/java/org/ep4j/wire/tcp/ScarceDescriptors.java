package org.ep4j.wire.tcp;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import org.ep4j.group.Group;
import org.ep4j.group.TakenDescriptors;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.tcp.pipe.DeadlinePipe;
import org.ep4j.wire.tcp.pipe.Handshake;
import org.ep4j.wire.tcp.pipe.PlainPipe;

/**
 * Program with a low limit of open files: two ranks open a wire {@code tcp} while no descriptor is
 * free, for a moment ({@code passing}) or until the wire has failed ({@code lasting}). Rank 1 is
 * the test's own, so that it connects exactly then. Prints the result of rank 0 per round.
 */
final class ScarceDescriptors {
  private static final Duration LONG = Duration.ofSeconds(20);
  private static final Duration SHORT = Duration.ofMillis(500);
  private static final long MOMENT_MILLIS = 200;

  private ScarceDescriptors() {}

  public static void main(String[] arguments) {
    // Classes cannot be loaded without descriptors: both results come once before.
    round(LONG, false, true);
    round(SHORT, false, false);
    if (arguments[0].equals("passing")) {
      round(LONG, true, true);
    } else {
      round(SHORT, true, false);
    }
  }

  private static void round(Duration timeout, boolean scarce, boolean connects) {
    WireConfig config = WireConfig.builder().timeout(timeout).build();
    ThreadRanks.run(
        2,
        LONG,
        group -> {
          if (group.rank() == 0) {
            open(group, config);
          } else {
            connect(group, scarce, connects);
          }
        });
  }

  private static void open(Group group, WireConfig config) {
    try {
      new TcpConnectionSetup("tcp", group, config, null).open().close();
      System.out.println("opened");
    } catch (WireException e) {
      System.out.println(e.getMessage());
    }
  }

  private static void connect(Group group, boolean scarce, boolean connects) throws Exception {
    byte[][] offers =
        CollectiveStep.exchange(group, "", new byte[Integer.BYTES + Handshake.TICKET_BYTES], LONG);
    ByteBuffer offer = ByteBuffer.wrap(offers[0]);
    int port = offer.getInt();
    byte[] ticket = new byte[Handshake.TICKET_BYTES];
    offer.get(ticket);
    try (SocketChannel channel = SocketChannel.open();
        TakenDescriptors taken = scarce ? new TakenDescriptors() : null) {
      // The kernel completes the connection; rank 0 needs a descriptor to accept it.
      channel.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
      channel.configureBlocking(false);
      if (taken != null && connects) {
        Thread.sleep(MOMENT_MILLIS);
        taken.release();
      }
      if (connects) {
        new Handshake(group.key(), ticket)
            .asClient(
                new PlainPipe(channel),
                new Handshake.PeerIdentity(1, 0),
                new DeadlinePipe(System.nanoTime() + LONG.toNanos()));
      }
      for (int i = 0; i < 2; i++) {
        CollectiveStep.exchange(group, "", new byte[0], LONG);
      }
    } catch (WireException e) {
      // Rank 0 prints it.
    }
  }
}
