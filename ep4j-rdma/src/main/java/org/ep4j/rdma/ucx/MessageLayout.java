package org.ep4j.rdma.ucx;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * The messages between two ranks over UCX, and the order in which they take effect.
 *
 * <p>A <b>connection</b> is an endpoint at each of two ranks, and the lanes that share it. It
 * carries messages (active messages of UCX, which are ordered) and puts (one-sided writes of UCX,
 * which are not ordered, neither with each other nor with messages). The memory of the receiver is
 * written by
 *
 * <ul>
 *   <li>puts of the sender, directly: long payloads into regions that the wire allocated;
 *   <li>the thread of the receiver that polls, from messages: all other payloads. Only this thread
 *       writes counters.
 * </ul>
 *
 * <p>The sender builds frames from the work of a lane in the order of acceptance. For a long put it
 * writes the bytes, flushes the endpoint, and builds an empty frame when the flush has ended: then
 * the bytes are visible. The sender polls the flush without blocking, and work of other lanes
 * overtakes it. A later add of the same lane follows that frame, and therefore the bytes. No fence
 * is needed: a fence would delay all peers.
 *
 * <p>A message is a header and frames. A frame is a header and a payload that is padded to 8 bytes.
 * All words are little endian.
 *
 * <pre>
 * message
 * 0   ticket     8 bytes  random number of the receiver for this wire; other messages are dropped
 * 8   rank       4 bytes  of the sender
 * 12  connection 2 bytes  index of the connection to the receiver
 * 14  -          2 bytes
 * 16  sequence   8 bytes  number of the message on its connection, from 1
 * 24  frames
 *
 * frame
 * 0   type       1 byte   {@link #PUT}, {@link #ADD}, {@link #ACK}, {@link #HELLO}, {@link #GOODBYE}
 * 1   flags      1 byte   {@link #LAST}: this frame ends its put
 * 2   lane       2 bytes  a lane of this connection
 * 4   bytes      4 bytes  payload; 0 unless PUT
 * 8   region     4 bytes  PUT: target region
 * 12  counter    4 bytes  PUT: counter of the complete put, or -1; ADD: counter to add to
 * 16  value      8 bytes  PUT: offset of the payload in the region; ADD: value to add; ACK: work of
 *                         the lane in the opposite direction that has taken effect;
 *                         HELLO: {@link #FIRST} or {@link #ANSWER}; GOODBYE: {@link #CLOSES} or
 *                         {@link #ABORTS}
 * </pre>
 *
 * HELLO opens a connection, which works when both ranks have received an answer. GOODBYE is the
 * last frame of its sender, whose puts have all ended; the peer answers with its own. A rank that
 * closes its wire waits for the answers, with a timeout, before it frees its memory.
 */
final class MessageLayout {
  /** Maximum size of a message: buffers of the transports hold 8 KiB, including headers of UCX. */
  static final int BYTES = 7680;

  static final int HEADER = 24;
  static final int FRAME = 24;

  static final byte PUT = 1;
  static final byte ADD = 2;
  static final byte ACK = 3;
  static final byte HELLO = 4;
  static final byte GOODBYE = 5;

  static final byte LAST = 1;

  /** Value of the HELLO of a rank that has received no HELLO. */
  static final long FIRST = 1;

  /** Value of the HELLO of a rank that has received one. */
  static final long ANSWER = 2;

  /** Value of the GOODBYE of a rank that closes its wire. */
  static final long CLOSES = 1;

  /** Value of the GOODBYE of a rank that received an invalid message. */
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

  /** Padded size of a payload. */
  static int padded(int bytes) {
    return (bytes + 7) & -8;
  }
}
