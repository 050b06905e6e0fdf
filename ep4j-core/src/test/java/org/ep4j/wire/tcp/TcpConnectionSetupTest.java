package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.as;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.InstanceOfAssertFactories.STRING;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.Ep4jException;
import org.ep4j.group.Group;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.Wires;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.tcp.pipe.Certified;
import org.ep4j.wire.tcp.pipe.DeadlinePipe;
import org.ep4j.wire.tcp.pipe.Handshake;
import org.ep4j.wire.tcp.pipe.PlainPipe;
import org.ep4j.wire.tcp.pipe.SocketPair;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Execution(ExecutionMode.CONCURRENT) // mostly waits
class TcpConnectionSetupTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  /** Time to connect where no connection comes: longer than a loaded machine stands still. */
  private static final Duration NO_CONNECTION = Duration.ofSeconds(3);

  /** The first steps of an honest rank, so that the test learns the ports. */
  private static byte[][] offers(Group group) {
    return CollectiveStep.exchange(
        group, "", new byte[Integer.BYTES + Handshake.TICKET_BYTES], TIMEOUT);
  }

  @Test
  void aRankThatNeverCallsIsNamed() {
    WireConfig config = WireConfig.builder().timeout(Duration.ofMillis(300)).build();

    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    TIMEOUT,
                    group -> {
                      if (group.rank() == 0) {
                        new TcpConnectionSetup("tcp", group, config, null).open();
                      } else {
                        offers(group);
                        CollectiveStep.exchange(group, "", new byte[0], TIMEOUT);
                      }
                    }))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(WireException.class)
        .hasMessageContaining("no connection from ranks [1] within 300 ms");
  }

  /** In a large world, all other ranks connect before the first of them has proved itself. */
  @Test
  void allRanksMayConnectAtOnce() {
    int ranks = 100;
    WireConfig config = WireConfig.builder().timeout(TIMEOUT).build();
    CountDownLatch connected = new CountDownLatch(ranks - 1);

    ThreadRanks.run(
        ranks,
        TIMEOUT.multipliedBy(2),
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(() -> new TcpConnectionSetup("tcp", group, config, null).open())
                .isInstanceOf(WireException.class)
                .hasMessageContaining("all have connected");
            return;
          }
          ByteBuffer offer = ByteBuffer.wrap(offers(group)[0]);
          InetSocketAddress port = new InetSocketAddress(group.address(0), offer.getInt());
          byte[] ticket = new byte[Handshake.TICKET_BYTES];
          offer.get(ticket);
          try (SocketChannel channel = SocketChannel.open(port)) {
            channel.configureBlocking(false);
            connected.countDown();
            assertThat(connected.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
            new Handshake(group.key(), ticket)
                .asClient(
                    new PlainPipe(channel),
                    new Handshake.PeerIdentity(group.rank(), 0),
                    new DeadlinePipe(System.nanoTime() + TIMEOUT.toNanos()));
            assertThatThrownBy(
                    () ->
                        CollectiveStep.exchange(group, "all have connected", new byte[0], TIMEOUT))
                .isInstanceOf(WireException.class);
          }
        });
  }

  /** Connecting has used its whole timeout; the others still have to hear why it failed. */
  @Test
  void theErrorOfARankReachesAllThatAreLate() {
    WireConfig config = WireConfig.builder().timeout(Duration.ofMillis(300)).build();

    ThreadRanks.run(
        3,
        TIMEOUT,
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(() -> new TcpConnectionSetup("tcp", group, config, null).open())
                .isInstanceOf(WireException.class)
                .hasMessageContaining("rank 0: no connection from ranks [1, 2] within 300 ms");
          } else {
            offers(group);
            Thread.sleep(300 + 50L * group.rank());
            assertThatThrownBy(
                    () -> CollectiveStep.exchange(group, "", new byte[0], config.timeout()))
                .isInstanceOf(WireException.class)
                .hasMessageContaining("rank 0: no connection from ranks [1, 2] within 300 ms");
          }
        });
  }

  @Test
  void ranksThatTrustEachOthersCertificatesOpenAWireAndOthersAreRefused() throws Exception {
    Certified[] own = {Certified.create(), Certified.create(), Certified.create()};
    ThreadRanks.run(
        3, TIMEOUT, group -> open(group, own[group.rank()].trusting(own), TIMEOUT).close());

    Certified untrusted = Certified.create();
    ThreadRanks.run(
        3,
        TIMEOUT,
        group -> {
          SSLContext context = (group.rank() == 1 ? untrusted : own[group.rank()]).trusting(own);
          assertThatThrownBy(() -> open(group, context, NO_CONNECTION))
              .isInstanceOf(WireException.class)
              .hasMessageContaining("rank 0: no connection from ranks [1]")
              .hasMessageContaining("TLS with a client failed")
              .hasMessageContaining("check for a firewall")
              .hasMessageContaining("certif");
        });
    ThreadRanks.run(
        2,
        TIMEOUT,
        group -> {
          WireConfig.Builder config = WireConfig.builder().wire("tcp").timeout(NO_CONNECTION);
          if (group.rank() == 0) {
            config.sslContext(own[0].trusting(own));
          } else {
            config.encrypted(true);
          }
          assertThatThrownBy(() -> Wires.open(group, config.build()))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageContaining("sslContext");
        });
  }

  /** TLS wraps what a class of the caller throws, on either side of a connection. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void anExceptionOfTheCallersTrustReachesAllRanks(int rank) throws Exception {
    SSLContext bad =
        Certified.create()
            .trusting(
                () -> {
                  throw new IllegalStateException("the store of trust is shut");
                });
    assertAllRanksFailWith(rank, bad, "the store of trust is shut");
  }

  /** TLS does not wrap what a context throws that makes no channel. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void anUncheckedExceptionReachesAllRanks(int rank) throws Exception {
    SSLContext bad = new OneChannelContext(Certified.create().trustingAll());
    assertAllRanksFailWith(rank, bad, "unexpectedly", OneChannelContext.ERROR);
  }

  /** A wire of two ranks does not open if {@code rank} has a context that throws. */
  private static void assertAllRanksFailWith(int rank, SSLContext bad, String... parts)
      throws Exception {
    SSLContext good = Certified.create().trustingAll();
    ThreadRanks.run(
        2,
        TIMEOUT,
        group ->
            assertThatThrownBy(() -> open(group, group.rank() == rank ? bad : good, NO_CONNECTION))
                .isInstanceOf(WireException.class)
                .hasMessageContainingAll(parts));
  }

  /** The other ranks wait for the ports of all: without the error they would wait in vain. */
  @Test
  void aContextThatIsNotInitializedIsReportedOnAllRanks() throws Exception {
    SSLContext good = Certified.create().trusting();
    SSLContext bad = SSLContext.getInstance("TLSv1.3");
    ThreadRanks.run(
        2,
        TIMEOUT,
        group ->
            assertThatThrownBy(() -> open(group, group.rank() == 1 ? bad : good, TIMEOUT))
                .isInstanceOf(WireException.class)
                .hasMessageContaining("rank 1: the sslContext of this rank cannot open TLS 1.3"));
  }

  private static Wire open(Group group, SSLContext context, Duration timeout) {
    return Wires.open(
        group, WireConfig.builder().wire("tcp").sslContext(context).timeout(timeout).build());
  }

  /** Prints a line per round; see {@link ScarceDescriptors}. */
  private static List<String> withFewDescriptors(String arguments) throws Exception {
    return ForkedJvm.run(
            List.of("sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"),
            ScarceDescriptors.class,
            List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m"),
            List.of(arguments))
        .lines();
  }

  @Test
  void acceptingOutlivesALackOfDescriptors() throws Exception {
    assertThat(withFewDescriptors("passing")).endsWith("opened");
  }

  @Test
  void aLackOfDescriptorsIsNamedInPlaceOfAFirewall() throws Exception {
    assertThat(withFewDescriptors("lasting"))
        .last(as(STRING))
        .contains("rank 0: no connection from ranks [1]", "Too many open files", "ulimit -n")
        .doesNotContain("firewall");
  }

  /** Unauthenticated clients that connect, send and disconnect do not disturb the ranks. */
  @Test
  void unauthenticatedConnectionsDoNotDisturb() {
    WireConfig config = WireConfig.builder().timeout(TIMEOUT).build();
    ThreadRanks.run(
        2,
        TIMEOUT,
        group -> {
          if (group.rank() == 0) {
            try (Wire wire = new TcpConnectionSetup("tcp", group, config, null).open()) {
              assertThat(wire.failedLanes()).isZero();
              group.barrier(TIMEOUT);
            }
          } else {
            ByteBuffer offer = ByteBuffer.wrap(offers(group)[0]);
            int port = offer.getInt();
            byte[] ticket = new byte[Handshake.TICKET_BYTES];
            offer.get(ticket);
            List<Socket> unauthenticatedSockets = unauthenticatedSockets(port);
            SocketPair pair = call(group, port, ticket);
            CollectiveStep.exchange(group, "", new byte[0], TIMEOUT);
            CollectiveStep.exchange(group, "", new byte[0], TIMEOUT);
            group.barrier(TIMEOUT);
            for (Socket unauthenticatedSocket : unauthenticatedSockets) {
              unauthenticatedSocket.close();
            }
            pair.close();
          }
        });
  }

  private static List<Socket> unauthenticatedSockets(int port) throws Exception {
    List<Socket> unauthenticatedSockets = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      Socket unauthenticatedSocket = new Socket(InetAddress.getLoopbackAddress(), port);
      if (i % 3 == 0) {
        unauthenticatedSocket.getOutputStream().write(new byte[100]);
      } else if (i % 3 == 1) {
        unauthenticatedSocket.close();
      }
      unauthenticatedSockets.add(unauthenticatedSocket);
    }
    return unauthenticatedSockets;
  }

  private static SocketPair call(Group group, int port, byte[] ticket) throws Exception {
    SocketPair pair = SocketPair.open();
    pair.here().close();
    var channel =
        java.nio.channels.SocketChannel.open(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    channel.configureBlocking(false);
    new Handshake(group.key(), ticket)
        .asClient(
            new PlainPipe(channel),
            new Handshake.PeerIdentity(1, 0),
            new DeadlinePipe(System.nanoTime() + TIMEOUT.toNanos()));
    return new SocketPair(channel, pair.there());
  }

  /** Rank 0 never takes the connection: its queue is full, so the system of rank 1 waits. */
  @Test
  void aRankThatIsInterruptedWhileItConnectsNamesNoPeer() throws Exception {
    WireConfig config = WireConfig.builder().timeout(TIMEOUT).build();
    List<SocketChannel> clients = new ArrayList<>();
    Thread[] connecting = new Thread[1];
    CountDownLatch started = new CountDownLatch(1);
    try (ServerSocketChannel full = ServerSocketChannel.open()) {
      full.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 1);
      for (int i = 0; i < 8; i++) {
        SocketChannel client = SocketChannel.open();
        client.configureBlocking(false);
        client.connect(full.getLocalAddress());
        clients.add(client);
      }
      int port = ((InetSocketAddress) full.getLocalAddress()).getPort();
      ThreadRanks.run(
          2,
          TIMEOUT,
          group -> {
            if (group.rank() == 1) {
              connecting[0] = Thread.currentThread();
              started.countDown();
              assertThatThrownBy(() -> new TcpConnectionSetup("tcp", group, config, null).open())
                  .isInstanceOf(Ep4jException.class);
              Thread.interrupted();
              return;
            }
            byte[] offer = new byte[Integer.BYTES + Handshake.TICKET_BYTES];
            CollectiveStep.exchange(
                group, "", ByteBuffer.wrap(offer).putInt(port).array(), TIMEOUT);
            started.await();
            while (!isConnecting(connecting[0])) {
              Thread.sleep(1);
            }
            connecting[0].interrupt();
            assertThatThrownBy(() -> CollectiveStep.exchange(group, "", new byte[0], TIMEOUT))
                .isInstanceOf(WireException.class)
                .hasMessageContaining("rank 1: interrupted while connecting");
          });
    } finally {
      for (SocketChannel client : clients) {
        client.close();
      }
    }
  }

  private static boolean isConnecting(Thread thread) {
    return Arrays.stream(thread.getStackTrace())
        .anyMatch(frame -> frame.getClassName().endsWith("SocketChannelImpl"));
  }

  @Test
  void ranksWithDifferentConfigurationsGetTheDifference() {
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    TIMEOUT,
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
