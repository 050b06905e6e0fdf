package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.ep4j.group.Group;
import org.ep4j.group.JobKey;
import org.ep4j.wire.tcp.Handshake.Claim;
import org.junit.jupiter.api.Test;

class HandshakeTest {
  private static final byte[] TICKET = Handshake.random(Handshake.TICKET_BYTES);
  private final JobKey key = newKey();

  private static JobKey newKey() {
    Group group = Group.inProcess(1).getFirst();
    try (group) {
      return group.key();
    }
  }

  private static PatientPipe patient() {
    return new PatientPipe(System.nanoTime() + Duration.ofSeconds(5).toNanos());
  }

  private static CompletableFuture<Claim> host(Pipe pipe, JobKey key, byte[] ticket) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return new Handshake(key, ticket).asHost(pipe, claim -> claim.rank() == 1, patient());
          } catch (IOException e) {
            throw new IllegalStateException(e);
          }
        });
  }

  private static Claim answer(CompletableFuture<Claim> host) throws Exception {
    return host.get(10, TimeUnit.SECONDS);
  }

  @Test
  void bothEndsWithTheKeyAgree() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(new PlainPipe(pair.there()), key, TICKET);
      new Handshake(key, TICKET).asGuest(new PlainPipe(pair.here()), new Claim(1, 3), patient());
      assertThat(answer(host)).isEqualTo(new Claim(1, 3));
    }
  }

  @Test
  void bothEndsAgreeOverTls() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(Tls.create().asHost(pair.there()), key, TICKET);
      Pipe guest = Tls.create().asGuest(pair.here());
      new Handshake(key, TICKET).asGuest(guest, new Claim(1, 0), patient());
      assertThat(answer(host)).isEqualTo(new Claim(1, 0));
    }
  }

  @Test
  void aGuestOfAnotherJobIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(new PlainPipe(pair.there()), key, TICKET);
      assertThatThrownBy(
              () ->
                  new Handshake(newKey(), TICKET)
                      .asGuest(new PlainPipe(pair.here()), new Claim(1, 0), patient()))
          .hasMessageContaining("another job");
      assertThatThrownBy(() -> answer(host))
          .isInstanceOf(ExecutionException.class)
          .hasMessageContaining("could not prove itself");
    }
  }

  @Test
  void aGuestWithTheTicketOfAnotherWireIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(new PlainPipe(pair.there()), key, TICKET);
      byte[] other = Handshake.random(Handshake.TICKET_BYTES);
      assertThatThrownBy(
              () ->
                  new Handshake(key, other)
                      .asGuest(new PlainPipe(pair.here()), new Claim(1, 0), patient()))
          .hasMessageContaining("another job");
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("could not prove itself");
    }
  }

  @Test
  void aGuestThatIsNotExpectedIsRefused() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(new PlainPipe(pair.there()), key, TICKET);
      assertThatThrownBy(
              () ->
                  new Handshake(key, TICKET)
                      .asGuest(new PlainPipe(pair.here()), new Claim(2, 0), patient()))
          .isInstanceOf(IOException.class);
      assertThatThrownBy(() -> answer(host)).isInstanceOf(ExecutionException.class);
    }
  }

  @Test
  void aHostThatOnlyRepeatsIsFoundOut() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Void> impostor =
          CompletableFuture.runAsync(
              () -> {
                try {
                  Pipe pipe = new PlainPipe(pair.there());
                  byte[] hello = patient().read(pipe, 41);
                  patient().write(pipe, ByteBuffer.wrap(hello, 9, 32));
                  byte[] proof = patient().read(pipe, 8 + JobKey.PROOF_BYTES);
                  patient()
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
                      .asGuest(new PlainPipe(pair.here()), new Claim(1, 0), patient()))
          .hasMessageContaining("does not know the secret");
      impostor.get(5, TimeUnit.SECONDS);
    }
  }

  @Test
  void aStrangerWithAnotherProtocolHearsNothing() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      CompletableFuture<Claim> host = host(new PlainPipe(pair.there()), key, TICKET);
      byte[] request = new byte[41];
      byte[] text = "GET / HTTP/1.1".getBytes(StandardCharsets.US_ASCII);
      System.arraycopy(text, 0, request, 0, text.length);
      pair.here().write(ByteBuffer.wrap(request));
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("stranger");
      assertThat(pair.here().read(ByteBuffer.allocate(10))).isZero();
    }
  }

  @Test
  void whoHangsUpOrSaysNothingEndsTheHandshake() throws Exception {
    try (SocketPair pair = SocketPair.open()) {
      PatientPipe hasty = new PatientPipe(System.nanoTime() + Duration.ofMillis(50).toNanos());
      Pipe pipe = new PlainPipe(pair.there());
      Handshake handshake = new Handshake(key, TICKET);
      assertThatThrownBy(() -> handshake.asHost(pipe, claim -> true, hasty))
          .hasMessageContaining("waited too long for the peer to speak");
      pair.here().close();
      assertThatThrownBy(() -> handshake.asHost(pipe, claim -> true, patient()))
          .hasMessageContaining("hung up");
    }
  }

  /** Both ends encrypt, but not with each other: the proofs must not fit. */
  @Test
  void whoStandsInTheMiddleOfTlsIsFoundOut() throws Exception {
    try (SocketPair left = SocketPair.open();
        SocketPair right = SocketPair.open()) {
      CompletableFuture<Claim> host = host(Tls.create().asHost(right.there()), key, TICKET);
      Pipe towardsGuest = Tls.create().asHost(left.there());
      Pipe towardsHost = Tls.create().asGuest(right.here());
      Thread middle = Thread.ofPlatform().daemon().start(() -> splice(towardsGuest, towardsHost));
      Pipe guest = Tls.create().asGuest(left.here());
      assertThatThrownBy(
              () -> new Handshake(key, TICKET).asGuest(guest, new Claim(1, 0), patient()))
          .isInstanceOf(IOException.class);
      assertThatThrownBy(() -> answer(host)).hasMessageContaining("could not prove itself");
      middle.interrupt();
      middle.join(5_000);
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
