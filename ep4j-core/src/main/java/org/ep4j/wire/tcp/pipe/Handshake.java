package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import org.ep4j.group.JobKey;

/**
 * Authentication of a connection: both ends prove that they belong to the job.
 *
 * <pre>
 * client  magic, version, random bytes
 * host    random bytes
 * client  its rank, index of the connection, proof
 * host    verdict, proof
 * </pre>
 *
 * The rank with the higher number is the client. A proof covers the random bytes of both sides, the
 * client's identity, the ticket that the host has distributed through the group for this wire, and
 * the binding to an encrypted pipe. All lengths are fixed, so an unauthenticated client causes no
 * allocation and learns only random bytes.
 */
public final class Handshake {
  public static final int TICKET_BYTES = 16;

  private static final byte[] MAGIC = "EP4JWIRE".getBytes(StandardCharsets.US_ASCII);
  private static final byte VERSION = 2;
  private static final int NONCE = 32;
  private static final int IDENTITY = 8;
  private static final byte ADMITTED = 1;
  private static final byte REFUSED = 2;
  private static final String CLIENT = "ep4j wire tcp 2, guest";
  private static final String HOST = "ep4j wire tcp 2, host";
  private static final SecureRandom RANDOM = new SecureRandom();

  /** The identity that a client states. */
  public record PeerIdentity(int rank, int index) {}

  /** Checks that an identity is expected and not registered twice. */
  @FunctionalInterface
  public interface Register {
    /** Registers the identity, once. */
    boolean take(PeerIdentity identity);
  }

  private final JobKey key;
  private final byte[] ticket;

  public Handshake(JobKey key, byte[] ticket) {
    this.key = key;
    this.ticket = ticket;
  }

  public static byte[] random(int bytes) {
    byte[] random = new byte[bytes];
    RANDOM.nextBytes(random);
    return random;
  }

  /** Proves that this rank belongs to the job, and verifies that the host does. */
  public void asClient(Pipe pipe, PeerIdentity identity, DeadlinePipe withDeadline)
      throws IOException {
    byte[] mine = random(NONCE);
    withDeadline.write(
        pipe,
        ByteBuffer.allocate(MAGIC.length + 1 + NONCE).put(MAGIC).put(VERSION).put(mine).flip());
    byte[] theirs = withDeadline.read(pipe, NONCE);
    byte[] said =
        ByteBuffer.allocate(IDENTITY).putInt(identity.rank()).putInt(identity.index()).array();
    byte[][] transcript = {mine, theirs, said, ticket, pipe.binding()};
    withDeadline.write(
        pipe,
        ByteBuffer.allocate(IDENTITY + JobKey.PROOF_BYTES)
            .put(said)
            .put(key.prove(CLIENT, transcript))
            .flip());
    byte[] answer = withDeadline.read(pipe, 1 + JobKey.PROOF_BYTES);
    if (answer[0] != ADMITTED) {
      throw new IOException("the peer refused this rank: one of the two belongs to another job");
    }
    if (!key.accepts(Arrays.copyOfRange(answer, 1, answer.length), HOST, transcript)) {
      throw new IOException("the listener does not know the secret of the job");
    }
  }

  /** Lets a client prove itself, then proves itself to the client. */
  public PeerIdentity asHost(Pipe pipe, Register register, DeadlinePipe withDeadline)
      throws IOException {
    byte[] hello = withDeadline.read(pipe, MAGIC.length + 1 + NONCE);
    if (!Arrays.equals(hello, 0, MAGIC.length, MAGIC, 0, MAGIC.length)
        || hello[MAGIC.length] != VERSION) {
      throw new IOException("an unauthenticated client that does not speak the wire protocol");
    }
    byte[] theirs = Arrays.copyOfRange(hello, MAGIC.length + 1, hello.length);
    byte[] mine = random(NONCE);
    withDeadline.write(pipe, ByteBuffer.wrap(mine));
    byte[] proof = withDeadline.read(pipe, IDENTITY + JobKey.PROOF_BYTES);
    byte[] said = Arrays.copyOf(proof, IDENTITY);
    ByteBuffer words = ByteBuffer.wrap(said);
    PeerIdentity identity = new PeerIdentity(words.getInt(), words.getInt());
    byte[][] transcript = {theirs, mine, said, ticket, pipe.binding()};
    boolean admitted =
        key.accepts(Arrays.copyOfRange(proof, IDENTITY, proof.length), CLIENT, transcript)
            && register.take(identity);
    byte[] answer = admitted ? key.prove(HOST, transcript) : new byte[JobKey.PROOF_BYTES];
    withDeadline.write(
        pipe,
        ByteBuffer.allocate(1 + answer.length)
            .put(admitted ? ADMITTED : REFUSED)
            .put(answer)
            .flip());
    if (!admitted) {
      throw new IOException(
          "a client that could not prove itself, or an identity that is already registered");
    }
    return identity;
  }
}
