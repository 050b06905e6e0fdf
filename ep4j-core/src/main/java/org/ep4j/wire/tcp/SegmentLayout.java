package org.ep4j.wire.tcp;

import java.nio.ByteBuffer;

/**
 * What travels on the socket of a connection whose bytes have a {@link Carrier}: messages of 8
 * bytes, little endian, in both directions.
 *
 * <pre>
 * 0  type   1 byte   {@link #OFFER}, {@link #INLINE}, {@link #GRANT}, {@link #CREDIT}
 * 4  value  4 bytes  OFFER, INLINE: bytes of the next segment; GRANT, CREDIT: how many
 * </pre>
 *
 * The bytes of a direction are cut into segments, which the receiver reads in their order. A short
 * one follows its INLINE. Of a longer one the sender says OFFER; the receiver begins to receive it
 * and says GRANT; then only does the sender begin to send. So a call of one side never waits longer
 * than for the other's next poll, and nobody receives what nobody sends.
 *
 * <p>A segment needs a slot at both ends. The sender announces no more segments than the receiver
 * has slots; the receiver says CREDIT when it has read some.
 */
final class SegmentLayout {
  static final int HEADER = 8;

  static final byte OFFER = 1;
  static final byte INLINE = 2;
  static final byte GRANT = 3;
  static final byte CREDIT = 4;

  /** Longest segment on the socket: a longer one is worth two calls of the carrier. */
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
