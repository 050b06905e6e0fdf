package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * One direction of a {@link CarriedPipe}, at the receiver: segments in a ring of slots, numbered
 * from 0. {@code read <= begun <= announced}; segments before {@code begun} have arrived or are
 * being received.
 */
final class SegmentsIn {
  private final Carrier carrier;
  private final int slots;
  private final ByteBuffer[] slot;
  private final int[] bytes;
  private final boolean[] inline;
  private long announced;
  private long begun;
  private long read;

  // Counts of the carrier's segments among those that were read, and among those that have arrived.
  private long carried;
  private long received;

  // Number of segments that the carrier has begun to receive.
  private long asked;

  private int grants;
  private int credits;

  SegmentsIn(Carrier carrier) {
    this.carrier = carrier;
    slots = carrier.slots();
    slot = new ByteBuffer[slots];
    for (int i = 0; i < slots; i++) {
      slot[i] = carrier.incoming(i).asByteBuffer();
    }
    bytes = new int[slots];
    inline = new boolean[slots];
  }

  /**
   * The peer has announced a segment; a short one lies in {@code socket}.
   *
   * @throws IOException if there is no room for the segment
   */
  void announce(ByteBuffer socket, int size, boolean onSocket) throws IOException {
    int at = (int) (announced % slots);
    if (announced - read == slots || size <= 0 || size > slot[at].capacity()) {
      throw new IOException("a segment of " + size + " bytes, for which there is no room");
    }
    bytes[at] = size;
    inline[at] = onSocket;
    slot[at].clear().limit(size);
    if (onSocket) {
      slot[at].put(0, socket, socket.position(), size);
      socket.position(socket.position() + size);
    }
    announced++;
  }

  /** Begins to receive announced segments. */
  void advance() throws IOException {
    while (begun < announced) {
      int at = (int) (begun % slots);
      if (!inline[at]) {
        if (!carrier.receive(at, bytes[at])) {
          break;
        }
        asked++;
        grants++;
      }
      begun++;
    }
    if (asked > received) {
      received = carrier.received();
    }
  }

  /** Reads what has arrived, as far as it fits. */
  int read(ByteBuffer target) {
    int before = target.position();
    while (target.hasRemaining() && ready()) {
      int at = (int) (read % slots);
      ByteBuffer from = slot[at];
      int part = Math.min(from.remaining(), target.remaining());
      target.put(target.position(), from, from.position(), part);
      target.position(target.position() + part);
      from.position(from.position() + part);
      if (!from.hasRemaining()) {
        carried += inline[at] ? 0 : 1;
        read++;
        credits++;
      }
    }
    return target.position() - before;
  }

  private boolean ready() {
    return read < begun && (inline[(int) (read % slots)] || received > carried);
  }

  /** Whether an announced segment is unread. */
  boolean waits() {
    return read < announced;
  }

  /**
   * Sends grants and credits to the peer.
   *
   * @param queued number of bytes that were ever put into {@code socket}
   * @return {@code queued}, plus the added bytes
   */
  long reply(ByteBuffer socket, long queued) {
    long count = queued;
    if (grants > 0 && socket.remaining() >= SegmentLayout.HEADER) {
      SegmentLayout.append(socket, SegmentLayout.GRANT, grants);
      count += SegmentLayout.HEADER;
      grants = 0;
    }
    if (credits > 0 && socket.remaining() >= SegmentLayout.HEADER) {
      SegmentLayout.append(socket, SegmentLayout.CREDIT, credits);
      count += SegmentLayout.HEADER;
      credits = 0;
    }
    return count;
  }
}
