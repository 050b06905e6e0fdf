package org.ep4j.wire.tcp;

import java.nio.ByteBuffer;

/**
 * The protocol of an authenticated connection: frames in both directions, each a header and {@code
 * bytes} of payload, little endian.
 *
 * <pre>
 * 0   type     1 byte   {@link #PUT}, {@link #ADD}, {@link #ACK}, {@link #GOODBYE}
 * 1   flags    1 byte   {@link #LAST}: this frame ends its put
 * 2   lane     2 bytes  unsigned; a lane of this connection
 * 4   bytes    4 bytes  payload, at most {@link #MAX_PAYLOAD}; 0 unless PUT
 * 8   region   4 bytes  PUT: target region
 * 12  counter  4 bytes  PUT: counted when the put is whole, or -1; ADD: what grows
 * 16  value    8 bytes  PUT: offset of the payload in the region; ADD: by how much; ACK: work of the
 *                       lane, in the direction against the frame, that has taken effect
 * </pre>
 *
 * A put longer than a frame is cut into frames; frames of other lanes may lie between them. The
 * frames of a lane take effect in order, so an add needs no further ordering. GOODBYE is the last
 * frame of a sender that closes in good order; a connection that ends without it is lost.
 */
final class FrameLayout {
  static final int HEADER = 24;

  /** Maximum payload, so that a long put leaves room for other lanes of its connection. */
  static final int MAX_PAYLOAD = 1 << 20;

  static final byte PUT = 1;
  static final byte ADD = 2;
  static final byte ACK = 3;
  static final byte GOODBYE = 4;

  static final byte LAST = 1;

  private static final int TYPE = 0;
  private static final int FLAGS = 1;
  private static final int LANE = 2;
  private static final int BYTES = 4;
  private static final int REGION = 8;
  private static final int COUNTER = 12;
  private static final int VALUE = 16;

  private FrameLayout() {}

  /** Appends a header at the buffer's position. */
  static void append(
      ByteBuffer buffer,
      byte type,
      byte flags,
      int lane,
      int bytes,
      int region,
      int counter,
      long value) {
    int at = buffer.position();
    buffer.put(at + TYPE, type);
    buffer.put(at + FLAGS, flags);
    buffer.putShort(at + LANE, (short) lane);
    buffer.putInt(at + BYTES, bytes);
    buffer.putInt(at + REGION, region);
    buffer.putInt(at + COUNTER, counter);
    buffer.putLong(at + VALUE, value);
    buffer.position(at + HEADER);
  }

  static byte type(ByteBuffer buffer, int at) {
    return buffer.get(at + TYPE);
  }

  static boolean isLast(ByteBuffer buffer, int at) {
    return buffer.get(at + FLAGS) == LAST;
  }

  static int lane(ByteBuffer buffer, int at) {
    return buffer.getShort(at + LANE) & 0xffff;
  }

  static int bytes(ByteBuffer buffer, int at) {
    return buffer.getInt(at + BYTES);
  }

  static int region(ByteBuffer buffer, int at) {
    return buffer.getInt(at + REGION);
  }

  static int counter(ByteBuffer buffer, int at) {
    return buffer.getInt(at + COUNTER);
  }

  static long value(ByteBuffer buffer, int at) {
    return buffer.getLong(at + VALUE);
  }
}
