package org.ep4j.wire.tcp.pipe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.ep4j.group.Group;
import org.ep4j.group.JobKey;
import org.ep4j.wire.tcp.pipe.Handshake.PeerIdentity;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

@Execution(ExecutionMode.CONCURRENT) // waits for deadlines
class HandshakeTest {
  private static final byte[] TICKET = Handshake.random(Handshake.TICKET_BYTES);
  private final JobKey key = newKey();

  private static JobKey newKey() {
    Group group = Group.inProcess(1).getFirst();
    try (group) {
      return group.key();
    }
  }

  private static DeadlinePipe withDeadline() {
    return new DeadlinePipe(System.nanoTime() + Duration.ofSeconds(5).toNanos());
  }

  private static CompletableFuture<PeerIdentity> host(Pipe pipe, JobKey key, byte[] ticket) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return new Handshake(key, ticket)
                .asHost(pipe, identity -> identity.rank() == 1, withDeadline());
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
        });
  }

  private static PeerIdentity answer(CompletableFuture<PeerIdentity> host) throws Exception {
    return host.get(10, TimeUnit.SECONDS);
  }

  @Test
  void bothEndsWithTheKeyAgree() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(new PlainPipe(pair.there()), key, TICKET);
      new Handshake(key, TICKET)
          .asClient(new PlainPipe(pair.here()), new PeerIdentity(1, 3), withDeadline());
      assertThat(answer(host)).isEqualTo(new PeerIdentity(1, 3));
    }
  }

  @Test
  void bothEndsAgreeOverTls() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(Tls.create().asHost(pair.there()), key, TICKET);
      Pipe client = Tls.create().asClient(pair.here());
      new Handshake(key, TICKET).asClient(client, new PeerIdentity(1, 0), withDeadline());
      assertThat(answer(host)).isEqualTo(new PeerIdentity(1, 0));
    }
  }

  @Test
  void aClientOfAnotherJobIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(new PlainPipe(pair.there()), key, TICKET);
      assertThatThrownBy(
              () ->
                  new Handshake(newKey(), TICKET)
                      .asClient(new PlainPipe(pair.here()), new PeerIdentity(1, 0), withDeadline()))
          .hasMessageContaining("another job");
      assertThatThrownBy(() -> answer(host))
          .isInstanceOf(ExecutionException.class)
          .hasMessageContaining("could not prove itself");
    }
  }

  @Test
  void aClientWithTheTicketOfAnotherWireIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(new PlainPipe(pair.there()), key, TICKET);
      byte[] other = Handshake.random(Handshake.TICKET_BYTES);
      assertThatThrownBy(
              () ->
                  new Handshake(key, other)
                      .asClient(new PlainPipe(pair.here()), new PeerIdentity(1, 0), withDeadline()))
          .hasMessageContaining("another job");
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("could not prove itself");
    }
  }

  @Test
  void anUnexpectedClientIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(new PlainPipe(pair.there()), key, TICKET);
      assertThatThrownBy(
              () ->
                  new Handshake(key, TICKET)
                      .asClient(new PlainPipe(pair.here()), new PeerIdentity(2, 0), withDeadline()))
          .isInstanceOf(IOException.class);
      assertThatThrownBy(() -> answer(host)).isInstanceOf(ExecutionException.class);
    }
  }

  @Test
  void aHostThatOnlyRepeatsIsDetected() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Void> impostor =
          CompletableFuture.runAsync(
              () -> {
                try {
                  Pipe pipe = new PlainPipe(pair.there());
                  byte[] hello = withDeadline().read(pipe, 41);
                  withDeadline().write(pipe, ByteBuffer.wrap(hello, 9, 32));
                  byte[] proof = withDeadline().read(pipe, 8 + JobKey.PROOF_BYTES);
                  withDeadline()
                      .write(
                          pipe,
                          ByteBuffer.allocate(1 + JobKey.PROOF_BYTES)
                              .put((byte) 1)
                              .put(proof, 8, JobKey.PROOF_BYTES)
                              .flip());
                } catch (IOException e) {
                  throw new IllegalStateException(e);
                }
              });
      assertThatThrownBy(
              () ->
                  new Handshake(key, TICKET)
                      .asClient(new PlainPipe(pair.here()), new PeerIdentity(1, 0), withDeadline()))
          .hasMessageContaining("does not know the secret");
      impostor.get(5, TimeUnit.SECONDS);
    }
  }

  @Test
  void aPeerWithAnotherProtocolReceivesNothing() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(new PlainPipe(pair.there()), key, TICKET);
      byte[] request = new byte[41];
      byte[] text = "GET / HTTP/1.1".getBytes(StandardCharsets.US_ASCII);
      System.arraycopy(text, 0, request, 0, text.length);
      pair.here().write(ByteBuffer.wrap(request));
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("unauthenticated client");
      assertThat(pair.here().read(ByteBuffer.allocate(10))).isZero();
    }
  }

  @Test
  void aPeerThatClosesOrIsSilentEndsTheHandshake() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      DeadlinePipe shortDeadline =
          new DeadlinePipe(System.nanoTime() + Duration.ofMillis(50).toNanos());
      Pipe pipe = new PlainPipe(pair.there());
      Handshake handshake = new Handshake(key, TICKET);
      assertThatThrownBy(() -> handshake.asHost(pipe, identity -> true, shortDeadline))
          .hasMessageContaining("timeout while waiting for data of the peer");
      pair.here().close();
      assertThatThrownBy(() -> handshake.asHost(pipe, identity -> true, withDeadline()))
          .hasMessageContaining("closed the connection");
    }
  }

  /** Both ends encrypt, but not with each other: the proofs must not match. */
  @Test
  void aManInTheMiddleOfTlsIsDetected() throws Exception {
    try (SocketPair left = SocketPair.open();
        SocketPair right = SocketPair.open()) {
      CompletableFuture<PeerIdentity> host = host(Tls.create().asHost(right.there()), key, TICKET);
      Pipe towardsClient = Tls.create().asHost(left.there());
      Pipe towardsHost = Tls.create().asClient(right.here());
      Thread middle = Thread.ofPlatform().daemon().start(() -> splice(towardsClient, towardsHost));
      Pipe client = Tls.create().asClient(left.here());
      assertThatThrownBy(
              () ->
                  new Handshake(key, TICKET)
                      .asClient(client, new PeerIdentity(1, 0), withDeadline()))
          .isInstanceOf(IOException.class);
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("could not prove itself");
      middle.interrupt();
      middle.join(5_000);
    }
  }

  /** A proof of one channel must not hold on another channel between the same two ranks. */
  @Test
  void eachTlsChannelHasABindingOfItsOwn() throws Exception {
    Tls hosting = Tls.create();
    Tls calling = Tls.create();
    List<String> bindings = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      try (SocketPair pair = SocketPair.open()) {
        Pipe there = hosting.asHost(pair.there());
        CompletableFuture<PeerIdentity> host = host(there, key, TICKET);
        Pipe here = calling.asClient(pair.here());
        new Handshake(key, TICKET).asClient(here, new PeerIdentity(1, 0), withDeadline());
        answer(host);
        assertThat(here.binding()).hasSize(32).isEqualTo(there.binding());
        bindings.add(HexFormat.of().formatHex(here.binding()));
      }
    }
    assertThat(bindings).doesNotHaveDuplicates();
  }

  /** A channel before its TLS handshake exports none, as that of a provider without exporters. */
  @Test
  void aTlsChannelWithoutKeyingMaterialFailsLikeAConnection() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      Pipe pipe = Security.tls().asClient(pair.here());
      assertThatThrownBy(pipe::binding)
          .isInstanceOf(SSLException.class)
          .hasMessageContaining("exports no keying material");
    }
  }

  @Test
  void certificatesOfTheCallerAreCheckedAtBothEnds() throws Exception {
    Certified one = Certified.create();
    Certified other = Certified.create();
    Certified untrusted = Certified.create();
    assertThat(connects(one.trusting(other), other.trusting(one))).isTrue();
    assertThat(connects(one.trusting(other), untrusted.trusting(one))).as("host").isFalse();
    assertThat(connects(untrusted.trusting(other), other.trusting(one))).as("client").isFalse();
  }

  private boolean connects(SSLContext client, SSLContext host) throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<PeerIdentity> hosting =
          host(Security.tls(host).asHost(pair.there()), key, TICKET);
      Pipe pipe = Security.tls(client).asClient(pair.here());
      boolean here;
      try {
        new Handshake(key, TICKET).asClient(pipe, new PeerIdentity(1, 0), withDeadline());
        here = true;
      } catch (IOException e) {
        here = false;
        close(pair.here());
      }
      boolean there;
      try {
        there = answer(hosting).rank() == 1;
      } catch (ExecutionException e) {
        there = false;
      }
      assertThat(here).isEqualTo(there);
      return here;
    }
  }

  private static void splice(Pipe one, Pipe other) {
    try {
      while (!Thread.interrupted()) {
        pass(one, other);
        pass(other, one);
        Thread.onSpinWait();
      }
    } catch (IOException e) {
      close(one.channel());
      close(other.channel());
    }
  }

  private static void pass(Pipe from, Pipe to) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(1024);
    from.read(buffer);
    buffer.flip();
    while (buffer.hasRemaining()) {
      to.write(buffer);
    }
  }

  private static void close(SocketChannel channel) {
    try {
      channel.close();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
