package org.ep4j.group.rendezvous;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.group.TcpWorld.LONG;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Challenge;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.GroupState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * Arbitrary input at the ports of a group, with and without the secret: bounded in size and time,
 * without effect on the group of two.
 */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(60)
class HostileClientTest {
  private static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();

  private final TcpWorld world = new TcpWorld(2);
  private List<Group> groups = List.of();

  @BeforeEach
  void joinAll() {
    groups = world.joinAll();
  }

  @AfterEach
  void theGroupStillWorks() throws Exception {
    TcpWorld.inEach(groups, group -> group.barrier(LONG));
    assertThat(groups.get(0).isAlive(1) && groups.get(1).isAlive(0)).isTrue();
    world.close();
  }

  private int rendezvousPort() {
    return world.rendezvous.address().getPort();
  }

  private int peerPort() {
    return ((TcpGroup) groups.get(1)).listensAt().getPort();
  }

  /** Connects, sends, and returns the reply until the peer closes. */
  private static byte[] answer(int port, byte[]... sends) throws IOException {
    try (Socket socket = new Socket(LOOPBACK, port)) {
      socket.setSoTimeout((int) LONG.toMillis());
      for (byte[] bytes : sends) {
        socket.getOutputStream().write(bytes);
      }
      return socket.getInputStream().readAllBytes();
    }
  }

  private static String text(byte[] answer) {
    return new String(answer, StandardCharsets.UTF_8);
  }

  @Test
  void aBrowserGetsAnErrorPage() throws Exception {
    for (int port : new int[] {rendezvousPort(), peerPort()}) {
      assertThat(
              text(
                  answer(
                      port,
                      "GET / HTTP/1.1\r\nHost: x\r\n\r\n".getBytes(StandardCharsets.US_ASCII))))
          .startsWith("HTTP/1.0 400 Bad Request\r\n")
          .endsWith("This is a port of an ep4j job, not a web server.\n");
    }
  }

  @Test
  void randomBytesAreRefused() throws Exception {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("seed " + seed);
    Random random = new Random(seed);
    for (int i = 0; i < 30; i++) {
      byte[] bytes = new byte[4 + random.nextInt(5000)];
      random.nextBytes(bytes);
      bytes[0] |= 1;
      assertThat(text(answer(i % 2 == 0 ? rendezvousPort() : peerPort(), bytes)))
          .contains("this is a port of an ep4j job, and the client does not speak its protocol");
    }
  }

  @Test
  void anOversizedFrameIsRefusedBeforeItsBytesAreRead() throws Exception {
    for (int length : new int[] {Frames.MAX_BEFORE_PROOF + 1, Integer.MAX_VALUE, 0, -1}) {
      byte[] header = ByteBuffer.allocate(5).putInt(length).put(Frames.HELLO).array();
      assertThat(text(answer(rendezvousPort(), header))).contains("does not speak its protocol");
    }
  }

  @Test
  void aFrameOutOfOrderIsRefused() throws Exception {
    byte[] proof = Frames.bytes(Frames.PROOF, new byte[Challenge.PROOF_BYTES]).array();
    byte[] join = Frames.join(new Frames.Join(0, 2, 1, 1, "")).array();
    byte[] hello = Frames.hello(Frames.Purpose.RENDEZVOUS, Challenge.nonce()).array();
    for (byte[] first : List.of(proof, join, Frames.ping().array())) {
      assertThat(text(answer(rendezvousPort(), first))).contains("does not speak its protocol");
    }
    assertThat(text(answer(rendezvousPort(), hello, hello)))
        .contains("does not speak its protocol");
    assertThat(text(answer(rendezvousPort(), hello, join))).contains("does not speak its protocol");
    assertThat(text(answer(rendezvousPort(), hello, proof)))
        .contains("does not have the secret of this job");
    // A greeting meant for another kind of port.
    assertThat(text(answer(peerPort(), hello))).contains("does not speak its protocol");
  }

  @Test
  void aGreetingThatIsCutShortIsDropped() throws Exception {
    byte[] hello = Frames.hello(Frames.Purpose.RENDEZVOUS, Challenge.nonce()).array();
    byte[] cut = Arrays.copyOf(hello, 5 + Frames.MAGIC.length);
    ByteBuffer.wrap(cut).putInt(cut.length - 4);
    assertThat(answer(rendezvousPort(), cut)).isEmpty();
  }

  @Test
  void aSilentClientIsDroppedAfterTheTimeout() throws Exception {
    byte[] half = Arrays.copyOf(Frames.hello(Frames.Purpose.PEER, new byte[32]).array(), 20);
    try (Socket silent = new Socket(LOOPBACK, rendezvousPort());
        Socket halting = new Socket(LOOPBACK, peerPort());
        BlockingFrameChannel provenOnly = channel()) {
      halting.getOutputStream().write(half);
      for (Socket socket : List.of(silent, halting)) {
        socket.setSoTimeout((int) LONG.toMillis());
        assertThat(socket.getInputStream().readAllBytes()).isEmpty();
      }
      assertThat(closes(provenOnly)).isTrue();
    }
  }

  private BlockingFrameChannel channel() throws IOException {
    return channel(world);
  }

  private static BlockingFrameChannel channel(TcpWorld world) throws IOException {
    return BlockingFrameChannel.open(
        world.rendezvous.address(),
        JobKey.of(TcpWorld.SECRET),
        Frames.Purpose.RENDEZVOUS,
        Deadline.after(LONG));
  }

  /** Whether the peer closes the connection, after any frames. */
  private static boolean closes(BlockingFrameChannel channel) {
    Deadline deadline = Deadline.after(LONG);
    try {
      while (!deadline.expired()) {
        channel.receive(Frames.MAX, deadline);
      }
      return false;
    } catch (JoinRefusedException e) {
      return true;
    } catch (IOException e) {
      return !deadline.expired();
    }
  }

  @Test
  void aClientThatSendsNonsenseAfterAuthenticationIsDropped() throws Exception {
    List<ByteBuffer> nonsense =
        List.of(
            Frames.ping(),
            Frames.part(0, 1, GroupState.Kind.BARRIER, new byte[0]),
            Frames.notice(0, 1, 7, new byte[1]),
            Frames.bytes(Frames.JOIN, new byte[3]),
            Frames.bytes(Frames.REJOIN, new byte[3]),
            Frames.empty(Frames.ADMIT),
            Frames.bytes((byte) 99, new byte[0]),
            ByteBuffer.allocate(4).putInt(Integer.MAX_VALUE).flip());
    for (ByteBuffer frame : nonsense) {
      try (BlockingFrameChannel channel = channel()) {
        channel.send(frame);
        assertThat(closes(channel)).isTrue();
      }
    }
  }

  @Test
  void aRejoinThatSendsNonsenseIsDroppedAndItsRankIsFree() throws Exception {
    try (TcpWorld other = new TcpWorld(2)) {
      List<Group> pair = other.joinAll();
      Group zero = pair.get(0);
      pair.get(1).fail("over");
      while (zero.isAlive(1)) {
        Thread.sleep(1);
      }
      List<ByteBuffer> nonsense =
          List.of(
              Frames.empty(Frames.ADMIT),
              Frames.part(1, 1, GroupState.Kind.BARRIER, new byte[0]),
              Frames.rejoin(new Frames.Join(1, 2, 1, 1, "")),
              Frames.bytes((byte) 99, new byte[0]));
      for (ByteBuffer frame : nonsense) {
        try (BlockingFrameChannel channel = channel(other)) {
          channel.send(Frames.rejoin(new Frames.Join(1, 2, 1, 1, "")));
          awaitReplacement(zero, true);
          channel.send(frame);
          assertThat(closes(channel)).isTrue();
          awaitReplacement(zero, false);
        }
      }
    }
  }

  private static void awaitReplacement(Group zero, boolean rejoining) throws Exception {
    while (zero.hasReplacement(1) != rejoining) {
      Thread.sleep(1);
    }
  }

  @Test
  void manySilentConnectionsDoNotKeepOutTheSecondRank() throws Exception {
    List<Socket> connections = new ArrayList<>();
    try (TcpWorld other = new TcpWorld(2)) {
      Thread first = Thread.startVirtualThread(() -> other.join(other.rank(0).build()));
      for (int i = 0; i < 400; i++) {
        connections.add(new Socket(LOOPBACK, other.rendezvous.address().getPort()));
      }
      Group second = other.join(other.rank(1).build());
      first.join();
      assertThat(second.isAlive(0)).isTrue();
      // The oldest was closed for it.
      connections.getFirst().setSoTimeout((int) LONG.toMillis());
      assertThat(connections.getFirst().getInputStream().read()).isEqualTo(-1);
    } finally {
      for (Socket socket : connections) {
        socket.close();
      }
    }
  }

  /** A refused client has a second to read why, but not beside any number of others. */
  @Test
  void manyRefusedConnectionsAreClosedBeforeTheirTime() throws Exception {
    List<Socket> connections = new ArrayList<>();
    try (TcpWorld other = new TcpWorld(2)) {
      for (int i = 0; i < 300; i++) {
        Socket socket = new Socket(LOOPBACK, other.rendezvous.address().getPort());
        connections.add(socket);
        socket.getOutputStream().write(new byte[4]);
      }
      assertThat(connections.getLast().getInputStream().readAllBytes()).isNotEmpty();
      // The limit for two ranks is 258.
      assertThat(connections)
          .filteredOn(HostileClientTest::isClosedThere)
          .hasSizeGreaterThanOrEqualTo(300 - 258);
    } finally {
      for (Socket socket : connections) {
        socket.close();
      }
    }
  }

  /** The answer to the first byte is that no process has the connection any more. */
  private static boolean isClosedThere(Socket socket) {
    try {
      OutputStream out = socket.getOutputStream();
      out.write(0);
      out.write(0);
      return false;
    } catch (IOException e) {
      return true;
    }
  }

  @Test
  void aMemberThatSendsAPartOutOfOrderIsRemovedAndTheOthersAreNotified() throws Exception {
    try (TcpWorld other = new TcpWorld(2)) {
      for (ByteBuffer bad :
          List.of(
              Frames.part(1, 2, GroupState.Kind.BARRIER, new byte[0]),
              Frames.part(0, 1, GroupState.Kind.BARRIER, new byte[0]))) {
        try (TcpWorld fresh = new TcpWorld(2)) {
          assertLoses(fresh, bad, "it sent a part out of order");
        }
      }
      assertLoses(
          other,
          ByteBuffer.allocate(4).putInt(Frames.MAX + 1).flip(),
          "it sent bytes that are not a frame");
    }
  }

  /** A notice from a rank that does not send it would fail lanes of the rank that it names. */
  @Test
  void aMemberThatSendsABadNoticeIsRemovedAndTheOthersAreNotified() throws Exception {
    for (ByteBuffer bad :
        List.of(
            Frames.notice(0, 0, 7, new byte[1]),
            Frames.notice(1, 0, 7, new byte[Group.MAX_NOTICE + 1]))) {
      try (TcpWorld world = new TcpWorld(2)) {
        assertLoses(world, bad, "it sent an invalid notice");
      }
    }
  }

  /** Pauses are as long as the job allows them, also before it has formed. */
  @Test
  void aClientMayBeSilentForTheLivenessTimeout() throws Exception {
    GroupConfig patient =
        TcpWorld.config(2).toBuilder()
            .livenessTimeout(LONG.multipliedBy(2))
            .joinTimeout(LONG.multipliedBy(2))
            .build();
    try (TcpWorld other = new TcpWorld(patient);
        BlockingFrameChannel pausing = channel(other)) {
      pausing.send(Frames.join(new Frames.Join(1, 2, 1, 1, "")));
      Thread.sleep(Duration.ofSeconds(11));
      assertThat(other.join(other.rank(0).build()).isAlive(1)).isTrue();
    }
  }

  private static void assertLoses(TcpWorld world, ByteBuffer bad, String why) throws Exception {
    try (BlockingFrameChannel member = channel(world)) {
      member.send(Frames.join(new Frames.Join(1, 2, 1, 1, "")));
      Group zero = world.join(world.rank(0).build());
      member.send(bad);
      assertThat(closes(member)).isTrue();
      Deadline deadline = Deadline.after(LONG);
      while (zero.isAlive(1) && !deadline.expired()) {
        Thread.sleep(2);
      }
      assertThat(zero.deathReport(1)).startsWith(why);
    }
  }

  @Test
  void aMemberThatDoesNotReadIsLostAndTheOthersAreServedMeanwhile() throws Exception {
    try (TcpWorld other = new TcpWorld(2);
        BlockingFrameChannel unresponsive = channel(other)) {
      unresponsive.send(Frames.join(new Frames.Join(1, 2, 1, 1, "")));
      Group zero = other.join(other.rank(0).build());
      byte[] part = new byte[Group.MAX_CONTRIBUTION];
      Deadline deadline = Deadline.after(LONG);
      int calls = 0;
      while (zero.isAlive(1) && calls < 40) {
        calls++;
        try {
          zero.allGather(part, Duration.ofMillis(20));
        } catch (GroupTimeoutException e) {
          assertThat(e.missing()).contains(1);
        } catch (PeerLostException e) {
          assertThat(e.rank()).isEqualTo(1);
        }
      }
      while (zero.isAlive(1) && !deadline.expired()) {
        Thread.sleep(5);
      }
      assertThat(zero.deathReport(1)).startsWith("it was silent for");
    }
  }

  @Test
  void resettingConnectionsInEveryPhaseLeavesNoTrace() throws Exception {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.println("seed " + seed);
    Random random = new Random(seed);
    byte[] hello = Frames.hello(Frames.Purpose.RENDEZVOUS, Challenge.nonce()).array();
    for (int i = 0; i < 100; i++) {
      try (Socket socket = new Socket(LOOPBACK, rendezvousPort())) {
        socket.setSoLinger(true, 0);
        socket.getOutputStream().write(hello, 0, random.nextInt(hello.length + 1));
        if (random.nextBoolean()) {
          socket.getOutputStream().write(hello);
        }
      } catch (SocketException e) {
        // Refused while still writing, as expected.
        assertThat(e).hasMessageMatching("(?s).*(reset|Broken pipe|abort).*");
      }
    }
  }
}
