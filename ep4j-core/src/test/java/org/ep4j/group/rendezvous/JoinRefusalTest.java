package org.ep4j.group.rendezvous;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.JoinRefusedException.Reason;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Challenge;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * Clients that do not belong to the job are refused with a reason, and do not disturb the group.
 */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(60)
class JoinRefusalTest {
  /** Enough time for a busy machine to try. */
  private static final Duration SHORT = Duration.ofSeconds(2);

  /**
   * One label is too long for a query to any name server, because name servers may be slow or give
   * any answer.
   */
  private static final String IMPOSSIBLE_HOST = "x".repeat(64) + ".invalid";

  private static void assertRefused(GroupConfig config, Reason reason, String... parts) {
    assertThatThrownBy(() -> Group.join(config))
        .isInstanceOfSatisfying(
            JoinRefusedException.class, e -> assertThat(e.reason()).isEqualTo(reason))
        .hasMessageContainingAll(parts);
  }

  /** The world of two still works. */
  private static void assertWorks(TcpWorld world, List<Group> groups) throws Exception {
    assertThat(world.rank(0).build().size()).isEqualTo(2);
    TcpWorld.inEach(groups, group -> group.barrier(LONG));
  }

  @Test
  void anUnauthenticatedPeerIsRefusedBeforeItLearnsTheWorldSize() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      GroupConfig unauthenticated = world.rank(1).size(3).secret("guess").build();
      // The complete answer: it does not contain the sizes.
      String answer =
          ErrorCode.SECRET_MISMATCH.id()
              + ": rank 1 cannot join: refused by 127.0.0.1:%d: the client does not have the secret of this"
                  .formatted(unauthenticated.port())
              + " job: set the same EP4J_SECRET on all ranks, or give each job its own port";
      assertThatThrownBy(() -> Group.join(unauthenticated)).hasMessage(answer);
      List<Group> groups = world.joinAll();
      assertRefused(unauthenticated, Reason.UNAUTHENTICATED, answer);
      assertWorks(world, groups);
    }
  }

  @Test
  void anotherWorldSizeIsRefusedWithBothSizes() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      assertRefused(
          world.rank(0).size(4).build(),
          Reason.WRONG_WORLD_SIZE,
          ErrorCode.WORLD_SIZE_MISMATCH.id(),
          "rank 0 expects a world of 4 ranks, this job has 2");
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void aDuplicateRankIsRefusedWithTheHolderOfTheRank() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      try (BlockingFrameChannel channel = channel(world)) {
        channel.send(Frames.join(new Frames.Join(1, 2, 1, 4711, "")));
        Frames.Frame pending = channel.receive(Frames.MAX, Deadline.after(LONG));
        assertThat(Frames.pending(pending.body())).containsExactly(0);
        assertRefused(
            world.rank(1).build(),
            Reason.DUPLICATE_RANK,
            ErrorCode.DUPLICATE_RANK.id(),
            "rank 1 is already process 4711 at 127.0.0.1");
      }
      // A client that disconnects frees its index.
      List<Group> groups = world.joinAll();
      assertRefused(
          world.rank(0).build(),
          Reason.DUPLICATE_RANK,
          "rank 0 is already process " + ProcessHandle.current().pid());
      assertWorks(world, groups);
    }
  }

  private static BlockingFrameChannel channel(TcpWorld world) throws IOException {
    return BlockingFrameChannel.open(
        world.rendezvous.address(),
        JobKey.of(TcpWorld.SECRET),
        Frames.Purpose.RENDEZVOUS,
        Deadline.after(LONG));
  }

  @Test
  void aRankOutsideTheWorldIsRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2);
        BlockingFrameChannel channel = channel(world)) {
      // A configuration rejects such a rank, so only another program sends it.
      channel.send(Frames.join(new Frames.Join(2, 2, 1, 1, "")));
      assertThatThrownBy(() -> channel.receive(Frames.MAX, Deadline.after(LONG)))
          .isInstanceOfSatisfying(
              JoinRefusedException.class,
              e -> assertThat(e.reason()).isEqualTo(Reason.RANK_OUT_OF_RANGE))
          .hasMessageContaining("rank 2 is not in a world of 2 ranks: use 0 to 1");
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void aRankWithAnImpossiblePeerPortIsRefusedBeforeItHarmsTheOthers() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      for (int port : new int[] {-1, 0, 65_536}) {
        try (BlockingFrameChannel channel = channel(world)) {
          channel.send(Frames.join(new Frames.Join(1, 2, port, 1, "")));
          assertThatThrownBy(() -> channel.receive(Frames.MAX, Deadline.after(LONG)))
              .hasMessageContaining("peer port " + port);
        }
      }
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void anotherJobOnThePortIsRefusedByName() throws Exception {
    try (TcpWorld world = new TcpWorld(TcpWorld.config(2).toBuilder().job("training").build())) {
      assertRefused(
          world.rank(1).job("evaluation").build(),
          Reason.ANOTHER_JOB,
          ErrorCode.OTHER_JOB.id(),
          "serves job 'training', the rank belongs to job 'evaluation'");
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void aSecondJobThatHostsAtTheSamePortIsRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      GroupConfig host = world.rank(0).hostsRendezvous(true).joinTimeout(SHORT).build();
      assertRefused(
          host,
          Reason.PORT_TAKEN,
          "cannot host the rendezvous at 127.0.0.1:" + world.rendezvous.address().getPort(),
          ErrorCode.RENDEZVOUS_PORT_TAKEN.id());
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void anInterruptWhileWaitingForThePortIsReported() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      GroupConfig host = world.rank(0).hostsRendezvous(true).build();
      Thread.currentThread().interrupt();
      assertThatThrownBy(() -> Group.join(host))
          .isExactlyInstanceOf(GroupException.class)
          .hasMessageContaining("interrupted while waiting for the port of the rendezvous at 127");
      assertThat(Thread.interrupted()).isTrue();
      assertWorks(world, world.joinAll());
    }
  }

  @Test
  void aDepartedRankCannotJoin() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      groups.get(2).fail("bad luck");
      assertThatThrownBy(() -> groups.get(0).barrier(LONG)).isInstanceOf(PeerLostException.class);
      assertRefused(
          world.rank(2).build(),
          Reason.DECLARED_DEAD,
          ErrorCode.RANK_DECLARED_DEAD.id(),
          "rank 2 is out of this group (failed: bad luck");
    }
  }

  @Test
  void aRendezvousThatDoesNotKnowTheSecretIsNotTrusted() throws Exception {
    try (ServerSocket fake = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread.startVirtualThread(() -> impersonate(fake));
      assertRefused(
          TcpWorld.rankOneAt(2, fake.getLocalPort()).build(),
          Reason.UNAUTHENTICATED,
          "the listener at 127.0.0.1:" + fake.getLocalPort() + " does not know the secret");
    }
  }

  /** Returns the client's own nonce and proof to it. */
  private static void impersonate(ServerSocket fake) {
    try (Socket socket = fake.accept()) {
      int hello = 5 + Frames.MAGIC.length + 2 + Challenge.NONCE_BYTES;
      byte[] greeting = socket.getInputStream().readNBytes(hello);
      byte[] nonce = new byte[Challenge.NONCE_BYTES];
      System.arraycopy(greeting, hello - nonce.length, nonce, 0, nonce.length);
      OutputStream out = socket.getOutputStream();
      out.write(Frames.bytes(Frames.CHALLENGE, nonce).array());
      byte[] proof = socket.getInputStream().readNBytes(5 + Challenge.PROOF_BYTES);
      proof[4] = Frames.PROVEN;
      out.write(proof);
      socket.getInputStream().read();
    } catch (IOException e) {
      // The client closes without a message to an impostor.
    }
  }

  /** Reads what clients say, and closes their connections 30 ms later. */
  private static void closeAfterAMoment(ServerSocket server) {
    while (!server.isClosed()) {
      try (Socket socket = server.accept()) {
        socket.getInputStream().readNBytes(5 + Frames.MAGIC.length + 2 + Challenge.NONCE_BYTES);
        Thread.sleep(30);
      } catch (IOException | InterruptedException e) {
        // The test has closed the server.
      }
    }
  }

  @Test
  void anotherServerOnThePortIsDetected() throws Exception {
    try (ServerSocket http = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread.startVirtualThread(
          () -> {
            try (Socket socket = http.accept()) {
              socket
                  .getOutputStream()
                  .write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
              socket.getInputStream().readAllBytes();
            } catch (IOException e) {
              // The client closes without a message to such a server.
            }
          });
      assertRefused(
          TcpWorld.rankOneAt(2, http.getLocalPort()).build(),
          Reason.WRONG_PROTOCOL,
          ErrorCode.PROTOCOL_MISMATCH.id(),
          "bytes 48 54 54 50");
    }
  }

  @Test
  void aPortWithoutListenerIsReportedAfterTheJoinTimeout() {
    int port = TcpWorld.freePort();
    assertThatThrownBy(() -> Group.join(TcpWorld.rankOneAt(2, port).joinTimeout(SHORT).build()))
        .isInstanceOf(GroupTimeoutException.class)
        .hasMessageStartingWith(
            ErrorCode.JOIN_TIMEOUT.id()
                + ": rank 1 could not join a world of 2 at 127.0.0.1:%d within 2 s: no process listens"
                    .formatted(port)
                + " there (Connection refused)");
  }

  @Test
  void aPortThatAcceptsAndNeverAnswersIsReportedAfterTheJoinTimeout() throws Exception {
    try (ServerSocket unresponsive = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      GroupConfig config =
          TcpWorld.rankOneAt(2, unresponsive.getLocalPort()).joinTimeout(SHORT).build();
      assertThatThrownBy(() -> Group.join(config))
          .isInstanceOf(GroupTimeoutException.class)
          .hasMessageContaining("127.0.0.1:" + unresponsive.getLocalPort() + " does not answer")
          .hasMessageStartingWith(ErrorCode.JOIN_TIMEOUT.id());
    }
  }

  /** The last attempt starts with the deadline, and gets no answer whatever the listener does. */
  @Test
  void theReasonIsThatOfAnAttemptWithTimeForAnAnswer() throws Exception {
    try (ServerSocket closing = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      Thread.ofPlatform().daemon().start(() -> closeAfterAMoment(closing));
      GroupConfig config = TcpWorld.rankOneAt(2, closing.getLocalPort()).joinTimeout(SHORT).build();
      assertThatThrownBy(() -> Group.join(config))
          .isInstanceOf(GroupTimeoutException.class)
          .hasMessageContaining("127.0.0.1:" + closing.getLocalPort() + " closed the connection");
    }
  }

  @Test
  void missingRanksAreNamedAfterTheJoinTimeout() throws Exception {
    try (TcpWorld world = new TcpWorld(4);
        BlockingFrameChannel channel = channel(world)) {
      // Rank 2 first, then this rank.
      channel.send(Frames.join(new Frames.Join(2, 4, 1, 1, "")));
      assertThat(Frames.pending(channel.receive(Frames.MAX, Deadline.after(LONG)).body()))
          .containsExactly(0, 1, 3);
      assertThatThrownBy(() -> Group.join(world.rank(0).joinTimeout(SHORT).build()))
          .isInstanceOfSatisfying(
              GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(1, 3))
          .hasMessageEndingWith("the rendezvous answers, but ranks 1, 3 are missing");
    }
  }

  @Test
  void whenTheHostAbortsTheOthersGetTheReason() {
    int port = TcpWorld.freePort();
    GroupConfig host =
        TcpWorld.config(3).toBuilder()
            .rendezvous("127.0.0.1", port)
            .joinTimeout(Duration.ofSeconds(4))
            .build();
    assertThat(host.hostsRendezvous()).isTrue();
    Thread.startVirtualThread(
        () -> assertThatThrownBy(() -> Group.join(host)).isInstanceOf(GroupTimeoutException.class));
    assertRefused(
        TcpWorld.rankOneAt(3, port).build(),
        Reason.CLOSED,
        ErrorCode.RENDEZVOUS_CLOSED.id(),
        "the rendezvous ended: " + ErrorCode.JOIN_TIMEOUT.id() + ": rank 0 could not join",
        "rank 2 is missing");
  }

  @Test
  void aVersionOfTheProtocolThatIsNotOursIsRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2);
        Socket socket = new Socket()) {
      socket.connect(world.rendezvous.address());
      ByteBuffer hello = Frames.hello(Frames.Purpose.RENDEZVOUS, Challenge.nonce());
      hello.put(5 + Frames.MAGIC.length, (byte) 9);
      socket.getOutputStream().write(Frames.rest(hello));
      assertThat(new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8))
          .contains("the client speaks version 9 of the group protocol, this side version 6");
    }
  }

  @Test
  void anUnknownRendezvousIsReportedByName() {
    assertThatThrownBy(
            () ->
                Group.join(
                    TcpWorld.rankOneAt(2, 29_400)
                        .rendezvous(IMPOSSIBLE_HOST, 29_400)
                        .joinTimeout(SHORT)
                        .build()))
        .isInstanceOf(GroupTimeoutException.class)
        .hasMessageContaining("unknown host " + IMPOSSIBLE_HOST);
  }
}
