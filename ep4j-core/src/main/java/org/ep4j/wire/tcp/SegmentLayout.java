package org.ep4j.wire.tcp;

import java.nio.ByteBuffer;

/**
 * The messages on the socket of a connection with a {@link Carrier}: 8 bytes, little endian, in both
 * directions.
 *
 * <pre>
 * 0  type   1 byte   {@link #OFFER}, {@link #INLINE}, {@link #GRANT}, {@link #CREDIT}
 * 4  value  4 bytes  OFFER, INLINE: bytes of the next segment; GRANT, CREDIT: how many
 * </pre>
 *
 * The bytes of a direction are cut into segments, which the receiver reads in order. A short segment
 * follows its INLINE. For a longer segment the sender sends OFFER; the receiver begins to receive and
 * sends GRANT; only then does the sender begin to send. Therefore a call of one side waits at most
 * until the next poll of the other, and every receive has a matching send.
 *
 * <p>A segment needs a slot at both ends. The sender announces at most as many segments as the
 * receiver has slots; the receiver sends CREDIT after it has read some.
 */
final class SegmentLayout {
  static final int HEADER = 8;

  static final byte OFFER = 1;
  static final byte INLINE = 2;
  static final byte GRANT = 3;
  static final byte CREDIT = 4;

  /** Maximum segment on the socket: a longer segment is worth two calls of the carrier. */
  static final int MAX_INLINE = 8 << 10;

  private static final int VALUE = 4;

  private SegmentLayout() {}

  /** Appends a message at the buffer's position. */
  static void append(ByteBuffer buffer, byte type, int value) {
    int at = buffer.position();
    buffer.putInt(at, type);
    buffer.putInt(at + VALUE, value);
    buffer.position(at + HEADER);
  }

  static byte type(ByteBuffer buffer, int at) {
    return buffer.get(at);
  }

  static int value(ByteBuffer buffer, int at) {
    return buffer.getInt(at + VALUE);
  }
}
