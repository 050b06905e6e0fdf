package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.group.Group;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.Wires;
import org.ep4j.wire.support.Agreement;
import org.junit.jupiter.api.Test;

class OpeningTest {
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** What an honest rank does at first, so that the test learns the ports. */
  private static byte[][] offers(Group group) {
    return Agreement.exchange(
        group, "", new byte[Integer.BYTES + Handshake.TICKET_BYTES], PATIENCE);
  }

  @Test
  void aRankThatNeverCallsIsNamed() {
    WireConfig config = WireConfig.builder().timeout(Duration.ofMillis(300)).build();

    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    PATIENCE,
                    group -> {
                      if (group.rank() == 0) {
                        new Opening("tcp", group, config, null).open();
                      } else {
                        offers(group);
                        Agreement.exchange(group, "", new byte[0], PATIENCE);
                      }
                    }))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(WireException.class)
        .hasMessageContaining("no connection came from ranks [1] within 300 ms");
  }

  /** Strangers that connect, talk and hang up do not keep the ranks apart. */
  @Test
  void strangersAtTheDoorDoNotDisturb() {
    WireConfig config = WireConfig.builder().timeout(PATIENCE).build();
    ThreadRanks.run(
        2,
        PATIENCE,
        group -> {
          if (group.rank() == 0) {
            try (Wire wire = new Opening("tcp", group, config, null).open()) {
              assertThat(wire.failedLanes()).isZero();
              group.barrier(PATIENCE);
            }
          } else {
            ByteBuffer offer = ByteBuffer.wrap(offers(group)[0]);
            int port = offer.getInt();
            byte[] ticket = new byte[Handshake.TICKET_BYTES];
            offer.get(ticket);
            List<Socket> strangers = strangers(port);
            SocketPair pair = call(group, port, ticket);
            Agreement.exchange(group, "", new byte[0], PATIENCE);
            group.barrier(PATIENCE);
            for (Socket stranger : strangers) {
              stranger.close();
            }
            pair.close();
          }
        });
  }

  private static List<Socket> strangers(int port) throws Exception {
    List<Socket> strangers = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      Socket stranger = new Socket(InetAddress.getLoopbackAddress(), port);
      if (i % 3 == 0) {
        stranger.getOutputStream().write(new byte[100]);
      } else if (i % 3 == 1) {
        stranger.close();
      }
      strangers.add(stranger);
    }
    return strangers;
  }

  private static SocketPair call(Group group, int port, byte[] ticket) throws Exception {
    SocketPair pair = SocketPair.open();
    pair.here().close();
    var channel =
        java.nio.channels.SocketChannel.open(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    channel.configureBlocking(false);
    new Handshake(group.key(), ticket)
        .asGuest(
            new PlainPipe(channel),
            new Handshake.Claim(1, 0),
            new PatientPipe(System.nanoTime() + PATIENCE.toNanos()));
    return new SocketPair(channel, pair.there());
  }

  @Test
  void ranksWithDifferentConfigurationsAreTold() {
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    PATIENCE,
                    group ->
                        Wires.open(
                            group,
                            WireConfig.builder().wire("tcp").lanes(2 + group.rank()).build())))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageContaining("lanes=");
  }
}
