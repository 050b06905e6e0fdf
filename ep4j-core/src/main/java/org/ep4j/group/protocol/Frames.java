package org.ep4j.group.protocol;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.group.JoinRefusedException;
import org.jspecify.annotations.Nullable;

/**
 * Messages between the ranks of a group, the rendezvous, and the peer ports.
 *
 * <p>A frame is an int32 length, a type byte and a body, big-endian; the length counts type and
 * body. A connection starts with
 *
 * <pre>
 *   client                     host
 *   HELLO nonce        ->
 *                      &lt;-      CHALLENGE nonce
 *   PROOF mac          ->                          or REFUSED and close
 *                      &lt;-      PROVEN mac
 * </pre>
 *
 * At the rendezvous JOIN follows, answered by PENDING until all ranks have joined, then by WELCOME.
 * Afterwards members send PART, NOTICE, LEAVE and PING. The rendezvous sends every PART and every
 * DEPARTED to all members in the same order, so the members agree on the outcome of a collective.
 * It passes a NOTICE on to the one member that it names. At a peer port ASK follows, answered by
 * PING until the owner of the port hosts a rendezvous for survivors or a new one for the same
 * group, then by HOSTING; or by VERDICT if the client is out of the group.
 *
 * <p>A restarted process sends REJOIN instead of JOIN to a group that has formed without it, and
 * receives PENDING until all live members have sent ADMIT. It then receives WELCOME, and the others
 * receive ADMITTED. REJOINING notifies members that a process waits. A member revokes its ADMIT
 * with WITHDRAW, which is answered by WITHDRAWN unless ADMITTED was sent before.
 *
 * <p>An observer is no member. It sends OBSERVE instead of JOIN, as often as it likes. The
 * rendezvous answers with OBSERVED, asks all members with OBSERVE, and passes their OBSERVATION on.
 *
 * <p>Lengths are checked before any allocation: {@link #MAX_BEFORE_PROOF} until the peer is
 * authenticated, {@link #MAX} afterwards.
 */
public final class Frames {
  /** The purpose of a listening port. */
  public enum Purpose {
    RENDEZVOUS(1),
    PEER(2);

    /** Encoding in frames. */
    final byte code;

    Purpose(int code) {
      this.code = (byte) code;
    }
  }

  public static final byte HELLO = 1;
  public static final byte CHALLENGE = 2;
  public static final byte PROOF = 3;
  public static final byte PROVEN = 4;
  static final byte REFUSED = 5;
  public static final byte JOIN = 6;
  public static final byte PENDING = 7;
  public static final byte WELCOME = 8;
  public static final byte PART = 9;
  public static final byte DEPARTED = 10;
  public static final byte LEAVE = 11;
  public static final byte PING = 12;

  /** The sender has declared the receiver dead. */
  public static final byte VERDICT = 13;

  /** The rendezvous closes. */
  public static final byte GOODBYE = 14;

  public static final byte ASK = 15;
  public static final byte HOSTING = 16;

  public static final byte REJOIN = 17;
  public static final byte REJOINING = 18;
  public static final byte ADMIT = 19;
  public static final byte ADMITTED = 20;
  public static final byte WITHDRAW = 21;
  public static final byte WITHDRAWN = 22;

  /** Some bytes from one member to another. */
  public static final byte NOTICE = 23;

  /** An observer asks for what the members have seen; the rendezvous asks the members. */
  public static final byte OBSERVE = 24;

  /** Answers an observer: how many members have been asked. */
  public static final byte OBSERVED = 25;

  /** What a member has seen, to the rendezvous and on to the observer. */
  public static final byte OBSERVATION = 26;

  static final byte VERSION = 6;
  public static final byte[] MAGIC = "EP4JGRP".getBytes(StandardCharsets.US_ASCII);

  /** Maximum length of a frame (type and body) before the sender is authenticated. */
  public static final int MAX_BEFORE_PROOF = 1024;

  /**
   * Maximum length of a frame afterwards: a part with its header, or a welcome for the maximum
   * number of ranks.
   */
  public static final int MAX = 2 << 20;

  private static final int MAX_TEXT_BYTES = 900;
  private static final int MAX_NAMED = 32;

  /** A received frame. */
  public record Frame(byte type, ByteBuffer body) {}

  /** What a rank sends to join. */
  public record Join(int id, int ids, int peerPort, long pid, String job) {}

  /** What a member receives when the group is complete; one peer per rank. */
  public record Welcome(int rank, int size, int hostRank, String jobId, List<Peer> peers) {}

  /**
   * What members know of one rank.
   *
   * @param incarnation as {@link Group#incarnation}
   * @param alive whether the rank is in the group
   * @param address of the rank's peer port, as the receiver of the frame reaches it
   */
  public record Peer(int rank, int incarnation, boolean alive, InetSocketAddress address) {}

  /** A question to a peer port. */
  public enum Question {
    /** Where do you host the group of the survivors? */
    SURVIVORS(0),
    /** Are you alive? */
    PROBE(1),
    /** Where do you host a new rendezvous of this group? */
    SAME_GROUP(2);

    /** Encoding in frames. */
    final byte code;

    Question(int code) {
      this.code = (byte) code;
    }

    public static @Nullable Question of(byte code) {
      return code >= 0 && code < values().length ? values()[code] : null;
    }
  }

  private Frames() {}

  public static ByteBuffer hello(Purpose purpose, byte[] nonce) {
    return start(HELLO, MAGIC.length + 2 + nonce.length)
        .put(MAGIC)
        .put(VERSION)
        .put(purpose.code)
        .put(nonce)
        .flip();
  }

  public static ByteBuffer bytes(byte type, byte[] body) {
    return start(type, body.length).put(body).flip();
  }

  public static ByteBuffer text(byte type, String text) {
    return bytes(type, encode(text));
  }

  public static ByteBuffer refused(JoinRefusedException.Reason reason, String text) {
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

  public static ByteBuffer join(Join join) {
    return join(JOIN, join);
  }

  /** JOIN of a process that replaces a departed one. */
  public static ByteBuffer rejoin(Join join) {
    return join(REJOIN, join);
  }

  private static ByteBuffer join(byte type, Join join) {
    byte[] job = encode(join.job());
    return start(type, 20 + job.length)
        .putInt(join.id())
        .putInt(join.ids())
        .putInt(join.peerPort())
        .putLong(join.pid())
        .put(job)
        .flip();
  }

  public static Join join(ByteBuffer body) {
    return new Join(body.getInt(), body.getInt(), body.getInt(), body.getLong(), text(body));
  }

  /** The ranks that have not joined; names at most the first 32. */
  public static ByteBuffer pending(int[] missing) {
    return ranks(start(PENDING, 4 * named(missing)), missing);
  }

  private static int named(int[] ranks) {
    return Math.min(ranks.length, MAX_NAMED);
  }

  private static ByteBuffer ranks(ByteBuffer frame, int[] ranks) {
    for (int i = 0; i < named(ranks); i++) {
      frame.putInt(ranks[i]);
    }
    return frame.flip();
  }

  /** The rest of a body as rank numbers. */
  public static int[] pending(ByteBuffer body) {
    int[] missing = new int[body.remaining() / 4];
    body.asIntBuffer().get(missing);
    return missing;
  }

  public static ByteBuffer welcome(Welcome welcome) {
    byte[] jobId = encode(welcome.jobId());
    ByteBuffer frame =
        start(WELCOME, 12 + 1 + jobId.length + length(welcome.peers()))
            .putInt(welcome.rank())
            .putInt(welcome.size())
            .putInt(welcome.hostRank())
            .put((byte) jobId.length)
            .put(jobId);
    return put(frame, welcome.peers()).flip();
  }

  /** The ranks that are readmitted. */
  public static ByteBuffer admitted(List<Peer> newcomers) {
    return put(start(ADMITTED, length(newcomers)), newcomers).flip();
  }

  private static int length(List<Peer> peers) {
    int length = 0;
    for (Peer peer : peers) {
      length += 12 + peer.address().getAddress().getAddress().length;
    }
    return length;
  }

  private static ByteBuffer put(ByteBuffer frame, List<Peer> peers) {
    for (Peer peer : peers) {
      byte[] address = peer.address().getAddress().getAddress();
      frame
          .putInt(peer.rank())
          .putInt(peer.incarnation())
          .put((byte) (peer.alive() ? 1 : 0))
          .put((byte) address.length)
          .put(address)
          .putShort((short) peer.address().getPort());
    }
    return frame;
  }

  /** The rest of a body as peers. */
  public static List<Peer> peers(ByteBuffer body) throws UnknownHostException {
    List<Peer> peers = new ArrayList<>();
    while (body.hasRemaining()) {
      int rank = body.getInt();
      int incarnation = body.getInt();
      boolean alive = body.get() != 0;
      InetAddress address = InetAddress.getByAddress(rest(body, body.get()));
      int port = body.getShort() & 0xffff;
      peers.add(new Peer(rank, incarnation, alive, new InetSocketAddress(address, port)));
    }
    return peers;
  }

  public static Welcome welcome(ByteBuffer body) throws UnknownHostException {
    int rank = body.getInt();
    int size = body.getInt();
    int hostRank = body.getInt();
    String jobId = text(ByteBuffer.wrap(rest(body, body.get())));
    return new Welcome(rank, size, hostRank, jobId, peers(body));
  }

  public static ByteBuffer part(int rank, long number, GroupState.Kind kind, byte[] part) {
    return start(PART, 13 + part.length)
        .putInt(rank)
        .putLong(number)
        .put(kind.code)
        .put(part)
        .flip();
  }

  /** The rendezvous asks a member for an observer. */
  public static ByteBuffer observe(int observer) {
    return start(OBSERVE, 4).putInt(observer).flip();
  }

  /**
   * Answers an observer.
   *
   * @param size ranks of the group
   * @param asked members that will answer
   */
  public static ByteBuffer observed(int size, int asked, String jobId) {
    byte[] job = encode(jobId);
    return start(OBSERVED, 8 + job.length).putInt(size).putInt(asked).put(job).flip();
  }

  /** The observations of a member, which must fit into {@link #MAX} together. */
  public static ByteBuffer observation(int observer, int rank, List<byte[]> observations) {
    int bytes = observations.stream().mapToInt(each -> 4 + each.length).sum();
    ByteBuffer frame = start(OBSERVATION, 12 + bytes);
    frame.putInt(observer).putInt(rank).putInt(observations.size());
    for (byte[] each : observations) {
      frame.putInt(each.length).put(each);
    }
    return frame.flip();
  }

  /** A notice; the body is the sender, the receiver, the topic and the bytes. */
  public static ByteBuffer notice(int from, int to, long topic, byte[] notice) {
    return start(NOTICE, 16 + notice.length)
        .putInt(from)
        .putInt(to)
        .putLong(topic)
        .put(notice)
        .flip();
  }

  public static ByteBuffer departed(int rank, Departure departure) {
    byte[] report = encode(departure.report());
    return start(DEPARTED, 5 + report.length)
        .putInt(rank)
        .put((byte) (departure.left() ? 1 : 0))
        .put(report)
        .flip();
  }

  /** Voluntary departure of a member; the report is empty if the member leaves in good order. */
  public static ByteBuffer leave(Departure departure) {
    return text(LEAVE, departure.left() ? "" : departure.report());
  }

  public static ByteBuffer ping() {
    return start(PING, 0).flip();
  }

  /**
   * A question to a peer port.
   *
   * @param rank the rank that asks
   * @param incarnation of that rank
   * @param jobId the job of both ranks
   */
  public static ByteBuffer ask(int rank, int incarnation, Question question, String jobId) {
    byte[] job = encode(jobId);
    return start(ASK, 9 + job.length)
        .putInt(rank)
        .putInt(incarnation)
        .put(question.code)
        .put(job)
        .flip();
  }

  /** A process waits to replace a rank, or has disconnected. */
  public static ByteBuffer rejoining(int rank, boolean waits) {
    return start(REJOINING, 5).putInt(rank).put((byte) (waits ? 1 : 0)).flip();
  }

  /** A frame without a body. */
  public static ByteBuffer empty(byte type) {
    return start(type, 0).flip();
  }

  /**
   * No process was admitted.
   *
   * @param rejoins number of processes that wait
   * @param missing live ranks that have not sent ADMIT; names at most the first 32
   */
  public static ByteBuffer withdrawn(int rejoins, int[] missing) {
    return ranks(start(WITHDRAWN, 4 + 4 * named(missing)).putInt(rejoins), missing);
  }

  public static ByteBuffer hosting(int port) {
    return start(HOSTING, 4).putInt(port).flip();
  }

  /** The rest of a body as text, without control characters: the sender may be unauthenticated. */
  public static String text(ByteBuffer body) {
    byte[] bytes = rest(body);
    return new String(bytes, StandardCharsets.UTF_8).replaceAll("\\p{Cntrl}", "?");
  }

  public static byte[] rest(ByteBuffer body) {
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
    return bytes.length <= MAX_TEXT_BYTES ? bytes : Arrays.copyOf(bytes, MAX_TEXT_BYTES);
  }

  private static ByteBuffer start(byte type, int bodyBytes) {
    return ByteBuffer.allocate(5 + bodyBytes).putInt(1 + bodyBytes).put(type);
  }
}
