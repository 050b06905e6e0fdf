package org.ep4j.rdma.ucx;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * What travels between two ranks over UCX, and in which order it takes effect.
 *
 * <p>A <b>link</b> is an endpoint at each of two ranks, and the lanes that share it. Over it go
 * messages (active messages of UCX, which keep their order) and, past them, puts (UCX's one-sided
 * writes, which keep none). The receiver's memory is written by
 *
 * <ul>
 *   <li>the sender's puts, directly: long payloads into regions that the wire has allocated;
 *   <li>the receiver's own thread while it polls, out of messages: everything else. Only it touches
 *       counters.
 * </ul>
 *
 * <p>The sender makes frames of the work of a lane in the order in which it was accepted. Of a long
 * put it first writes the bytes, then flushes the endpoint, and makes the frame, an empty one, when
 * the flush has ended: then the bytes are visible. The flush is asked after by polling; nobody
 * waits for it, and work of other lanes goes past. A later add of the same lane stands behind that
 * frame, and so behind the bytes. No fence is needed, and none is used: it would hold up all peers.
 *
 * <p>A message is a header and frames, each a header and a payload that is filled up to 8 bytes;
 * little endian.
 *
 * <pre>
 * message
 * 0   ticket     8 bytes  what the receiver drew for this wire: others' messages are dropped
 * 8   rank       4 bytes  of the sender
 * 12  connection 2 bytes  which of the links to the receiver
 * 14  -          2 bytes
 * 16  sequence   8 bytes  number of the message on its link, from 1
 * 24  frames
 *
 * frame
 * 0   type       1 byte   {@link #PUT}, {@link #ADD}, {@link #ACK}, {@link #HELLO}, {@link #GOODBYE}
 * 1   flags      1 byte   {@link #LAST}: this frame ends its put
 * 2   lane       2 bytes  a lane of this link
 * 4   bytes      4 bytes  payload; 0 unless PUT
 * 8   region     4 bytes  PUT: target region
 * 12  counter    4 bytes  PUT: counted when the put is whole, or -1; ADD: what grows
 * 16  value      8 bytes  PUT: offset of the payload in the region; ADD: by how much; ACK: work of
 *                         the lane, in the direction against the frame, that has taken effect;
 *                         HELLO: {@link #FIRST} or {@link #ANSWER}; BYE: {@link #CLOSES} or
 *                         {@link #ABORTS}
 * </pre>
 *
 * HELLO opens a link: it works when both have had an answer. BYE is the last frame of its sender,
 * who has no put under way any more; the other answers with its own. A rank that closes its wire
 * waits for the answers, for a while, before it gives its memory back.
 */
final class MessageLayout {
  /** Longest message: the transports' buffers hold 8 KiB with UCX's own headers. */
  static final int BYTES = 7680;

  static final int HEADER = 24;
  static final int FRAME = 24;

  static final byte PUT = 1;
  static final byte ADD = 2;
  static final byte ACK = 3;
  static final byte HELLO = 4;
  static final byte GOODBYE = 5;

  static final byte LAST = 1;

  /** Value of the HELLO of a rank that has not heard the other. */
  static final long FIRST = 1;

  /** Value of the HELLO of a rank that has. */
  static final long ANSWER = 2;

  /** Value of the BYE of a rank that closes its wire. */
  static final long CLOSES = 1;

  /** Value of the BYE of a rank that was sent what it cannot take. */
  static final long ABORTS = 2;

  private static final ValueLayout.OfLong LONG =
      ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfInt INT =
      ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
  private static final ValueLayout.OfShort SHORT =
      ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

  private MessageLayout() {}

  static void header(
      MemorySegment to, long at, long ticket, int rank, int connection, long sequence) {
    to.set(LONG, at, ticket);
    to.set(INT, at + 8, rank);
    to.set(SHORT, at + 12, (short) connection);
    to.set(SHORT, at + 14, (short) 0);
    to.set(LONG, at + 16, sequence);
  }

  static long ticket(MemorySegment from, long at) {
    return from.get(LONG, at);
  }

  static int rank(MemorySegment from, long at) {
    return from.get(INT, at + 8);
  }

  static int connection(MemorySegment from, long at) {
    return from.get(SHORT, at + 12);
  }

  static long sequence(MemorySegment from, long at) {
    return from.get(LONG, at + 16);
  }

  static void frame(
      MemorySegment to,
      long at,
      byte type,
      byte flags,
      int lane,
      int bytes,
      int region,
      int counter,
      long value) {
    to.set(ValueLayout.JAVA_BYTE, at, type);
    to.set(ValueLayout.JAVA_BYTE, at + 1, flags);
    to.set(SHORT, at + 2, (short) lane);
    to.set(INT, at + 4, bytes);
    to.set(INT, at + 8, region);
    to.set(INT, at + 12, counter);
    to.set(LONG, at + 16, value);
  }

  static byte type(MemorySegment from, long at) {
    return from.get(ValueLayout.JAVA_BYTE, at);
  }

  static boolean isLast(MemorySegment from, long at) {
    return from.get(ValueLayout.JAVA_BYTE, at + 1) == LAST;
  }

  static int lane(MemorySegment from, long at) {
    return from.get(SHORT, at + 2) & 0xffff;
  }

  static int bytes(MemorySegment from, long at) {
    return from.get(INT, at + 4);
  }

  static int region(MemorySegment from, long at) {
    return from.get(INT, at + 8);
  }

  static int counter(MemorySegment from, long at) {
    return from.get(INT, at + 12);
  }

  static long value(MemorySegment from, long at) {
    return from.get(LONG, at + 16);
  }

  /** Bytes that a payload takes. */
  static int padded(int bytes) {
    return (bytes + 7) & -8;
  }
}
