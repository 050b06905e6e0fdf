package org.ep4j.group;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What travels between the ranks of a group, the rendezvous, and the peer ports.
 *
 * <p>A frame is an int32 length, a type byte and a body, big-endian; the length counts type and
 * body. A connection starts with
 *
 * <pre>
 *   guest                      host
 *   HELLO nonce        ->
 *                      <-      CHALLENGE nonce
 *   PROOF mac          ->                          or REFUSED, and the end
 *                      <-      PROVEN mac
 * </pre>
 *
 * and goes on at the rendezvous with JOIN, then PENDING until all ranks are there, then WELCOME.
 * From then on members send PART, LEAVE and PING; the rendezvous sends every PART and every
 * DEPARTED to all members in one and the same order, which is what makes the members agree on the
 * outcome of a collective. At a peer port it goes on with ASK, answered by PING until the port's
 * owner hosts a rendezvous for survivors, then HOSTING.
 *
 * <p>Lengths are checked before anything is allocated: {@link #MOST_BEFORE_PROOF} until the other
 * side has proven itself, {@link #MOST} afterwards.
 */
final class Frames {
  /** What a listening port is for. */
  enum Purpose {
    RENDEZVOUS(1),
    PEER(2);

    /** How frames say it. */
    final byte code;

    Purpose(int code) {
      this.code = (byte) code;
    }
  }

  static final byte HELLO = 1;
  static final byte CHALLENGE = 2;
  static final byte PROOF = 3;
  static final byte PROVEN = 4;
  static final byte REFUSED = 5;
  static final byte JOIN = 6;
  static final byte PENDING = 7;
  static final byte WELCOME = 8;
  static final byte PART = 9;
  static final byte DEPARTED = 10;
  static final byte LEAVE = 11;
  static final byte PING = 12;

  /** The receiver has been declared dead by the sender. */
  static final byte VERDICT = 13;

  /** The rendezvous closes. */
  static final byte GOODBYE = 14;

  static final byte ASK = 15;
  static final byte HOSTING = 16;

  static final byte VERSION = 1;
  static final byte[] MAGIC = "EP4JGRP".getBytes(StandardCharsets.US_ASCII);

  /** Longest frame, type and body, before the sender has proven itself. */
  static final int MOST_BEFORE_PROOF = 1024;

  /** Longest frame afterwards: a part with its header, or a welcome for the most ranks. */
  static final int MOST = 2 << 20;

  private static final int MOST_TEXT_BYTES = 900;
  private static final int MOST_NAMED = 32;

  /** A frame as it was received. */
  record Frame(byte type, ByteBuffer body) {}

  /** What a rank says of itself when it joins. */
  record Join(int id, int ids, int peerPort, long pid, String job) {}

  /** What a member learns when the group is complete. */
  record Welcome(int rank, int size, int hostRank, String jobId, List<InetSocketAddress> peers) {}

  private Frames() {}

  static ByteBuffer hello(Purpose purpose, byte[] nonce) {
    return start(HELLO, MAGIC.length + 2 + nonce.length)
        .put(MAGIC)
        .put(VERSION)
        .put(purpose.code)
        .put(nonce)
        .flip();
  }

  static ByteBuffer bytes(byte type, byte[] body) {
    return start(type, body.length).put(body).flip();
  }

  static ByteBuffer text(byte type, String text) {
    return bytes(type, encode(text));
  }

  static ByteBuffer refused(JoinRefusedException.Reason reason, String text) {
    byte[] body = encode(text);
    return start(REFUSED, 1 + body.length).put(reason.code).put(body).flip();
  }

  static JoinRefusedException.Reason reason(ByteBuffer body) {
    byte code = body.get();
    for (JoinRefusedException.Reason reason : JoinRefusedException.Reason.values()) {
      if (reason.code == code) {
        return reason;
      }
    }
    return JoinRefusedException.Reason.WRONG_PROTOCOL;
  }

  static ByteBuffer join(Join join) {
    byte[] job = encode(join.job());
    return start(JOIN, 20 + job.length)
        .putInt(join.id())
        .putInt(join.ids())
        .putInt(join.peerPort())
        .putLong(join.pid())
        .put(job)
        .flip();
  }

  static Join join(ByteBuffer body) {
    return new Join(body.getInt(), body.getInt(), body.getInt(), body.getLong(), text(body));
  }

  /** The ranks that have not joined; at most the first 32 are named. */
  static ByteBuffer pending(int[] missing) {
    int named = Math.min(missing.length, MOST_NAMED);
    ByteBuffer frame = start(PENDING, 4 * named);
    for (int i = 0; i < named; i++) {
      frame.putInt(missing[i]);
    }
    return frame.flip();
  }

  static int[] pending(ByteBuffer body) {
    int[] missing = new int[body.remaining() / 4];
    body.asIntBuffer().get(missing);
    return missing;
  }

  static ByteBuffer welcome(Welcome welcome) {
    byte[] jobId = encode(welcome.jobId());
    int length = 12 + 1 + jobId.length;
    for (InetSocketAddress peer : welcome.peers()) {
      length += 1 + peer.getAddress().getAddress().length + 2;
    }
    ByteBuffer frame =
        start(WELCOME, length)
            .putInt(welcome.rank())
            .putInt(welcome.size())
            .putInt(welcome.hostRank())
            .put((byte) jobId.length)
            .put(jobId);
    for (InetSocketAddress peer : welcome.peers()) {
      byte[] address = peer.getAddress().getAddress();
      frame.put((byte) address.length).put(address).putShort((short) peer.getPort());
    }
    return frame.flip();
  }

  static Welcome welcome(ByteBuffer body) throws UnknownHostException {
    int rank = body.getInt();
    int size = body.getInt();
    int hostRank = body.getInt();
    String jobId = text(ByteBuffer.wrap(rest(body, body.get())));
    List<InetSocketAddress> peers = new ArrayList<>();
    for (int r = 0; r < size && r < GroupConfig.MOST_RANKS; r++) {
      InetAddress address = InetAddress.getByAddress(rest(body, body.get()));
      peers.add(new InetSocketAddress(address, body.getShort() & 0xffff));
    }
    return new Welcome(rank, size, hostRank, jobId, peers);
  }

  static ByteBuffer part(int rank, long number, Ledger.Kind kind, byte[] part) {
    return start(PART, 13 + part.length)
        .putInt(rank)
        .putLong(number)
        .put(kind.code)
        .put(part)
        .flip();
  }

  static ByteBuffer departed(int rank, Departure departure) {
    byte[] report = encode(departure.report());
    return start(DEPARTED, 5 + report.length)
        .putInt(rank)
        .put((byte) (departure.left() ? 1 : 0))
        .put(report)
        .flip();
  }

  /** A member's departure by its own will; the report is empty if it leaves in good order. */
  static ByteBuffer leave(Departure departure) {
    return text(LEAVE, departure.left() ? "" : departure.report());
  }

  static ByteBuffer ping() {
    return start(PING, 0).flip();
  }

  /**
   * Asks a peer port.
   *
   * @param rank who asks
   * @param probe whether the question is only whether the port's owner is there
   * @param jobId the job both belong to
   */
  static ByteBuffer ask(int rank, boolean probe, String jobId) {
    byte[] job = encode(jobId);
    return start(ASK, 5 + job.length).putInt(rank).put((byte) (probe ? 1 : 0)).put(job).flip();
  }

  static ByteBuffer hosting(int port) {
    return start(HOSTING, 4).putInt(port).flip();
  }

  /** The rest of a body as text, without control characters: it may come from anybody. */
  static String text(ByteBuffer body) {
    byte[] bytes = rest(body);
    return new String(bytes, StandardCharsets.UTF_8).replaceAll("\\p{Cntrl}", "?");
  }

  static byte[] rest(ByteBuffer body) {
    byte[] bytes = new byte[body.remaining()];
    body.get(bytes);
    return bytes;
  }

  private static byte[] rest(ByteBuffer body, int length) {
    byte[] bytes = new byte[length];
    body.get(bytes);
    return bytes;
  }

  private static byte[] encode(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return bytes.length <= MOST_TEXT_BYTES ? bytes : Arrays.copyOf(bytes, MOST_TEXT_BYTES);
  }

  private static ByteBuffer start(byte type, int bodyBytes) {
    return ByteBuffer.allocate(5 + bodyBytes).putInt(1 + bodyBytes).put(type);
  }
}
