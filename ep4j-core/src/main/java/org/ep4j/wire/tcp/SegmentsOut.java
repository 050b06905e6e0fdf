package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * One direction of a {@link CarriedPipe}, at the sender: segments in a ring of slots, numbered from
 * 0. {@code left <= announced <= open}; segments from {@code announced} on are complete, except the
 * open one, which grows.
 */
final class SegmentsOut {
  /** With this many segments in flight, the next one grows instead of being announced. */
  private static final int PIPELINED = 2;

  private final Carrier carrier;
  private final int slots;
  private final ByteBuffer[] slot;

  /** Bytes of each segment. */
  private final int[] bytes;

  /** Position of the socket stream at which a segment ends; -1 for a segment of the carrier. */
  private final long[] end;

  private long open;
  private long announced;
  private long left;

  /** Number of segments that the receiver has read. */
  private long credited;

  // Counts of the carrier's segments: granted by the receiver, and begun.
  private long granted;
  private long begun;

  /** The segment to check at the next begin; at most {@code announced}. */
  private long next;

  // Counts of all bytes: accepted here, and left.
  private long accepted;
  private long gone;

  // Number of the carrier's segments among those that have left.
  private long carried;

  SegmentsOut(Carrier carrier) {
    this.carrier = carrier;
    slots = carrier.slots();
    slot = new ByteBuffer[slots];
    for (int i = 0; i < slots; i++) {
      slot[i] = carrier.outgoing(i).asByteBuffer();
    }
    bytes = new int[slots];
    end = new long[slots];
  }

  /** Bytes that were written and have not left. */
  long inFlight() {
    return accepted - gone;
  }

  /** Whether there is a complete segment that is not announced. */
  boolean holdsWhole() {
    return announced < open;
  }

  /** Whether the receiver has read all announced segments. */
  boolean allRead() {
    return credited == announced;
  }

  /** Accepts as many bytes as there is room for. */
  int write(ByteBuffer source) {
    int before = source.position();
    while (source.hasRemaining() && open - left < slots) {
      ByteBuffer into = slot[(int) (open % slots)];
      int part = Math.min(source.remaining(), into.remaining());
      into.put(into.position(), source, source.position(), part);
      into.position(into.position() + part);
      source.position(source.position() + part);
      accepted += part;
      if (!into.hasRemaining()) {
        seal();
      }
    }
    return source.position() - before;
  }

  private void seal() {
    int at = (int) (open % slots);
    bytes[at] = slot[at].position();
    open++;
    if (open - left < slots) {
      slot[(int) (open % slots)].clear();
    }
  }

  /**
   * Announces due segments behind the data that waits for the socket.
   *
   * @param queued number of bytes that were ever put into {@code socket}
   * @return {@code queued}, plus the added bytes
   */
  long announce(ByteBuffer socket, long queued) {
    long count = queued;
    while (announced - credited < slots && due()) {
      int at = (int) (announced % slots);
      boolean inline = bytes[at] <= SegmentLayout.MAX_INLINE;
      if (socket.remaining() < SegmentLayout.HEADER + (inline ? bytes[at] : 0)) {
        break;
      }
      SegmentLayout.append(socket, inline ? SegmentLayout.INLINE : SegmentLayout.OFFER, bytes[at]);
      count += SegmentLayout.HEADER;
      if (inline) {
        socket.put(slot[at].position(0).limit(bytes[at]));
        count += bytes[at];
      }
      end[at] = inline ? count : -1;
      announced++;
    }
    return count;
  }

  /** Whether there is a segment to announce; closes the open segment when it is due. */
  private boolean due() {
    if (announced == open && open - left < PIPELINED) {
      if (slot[(int) (open % slots)].position() == 0) {
        return false;
      }
      seal();
    }
    return announced < open;
  }

  /** The receiver has begun to receive this many more. */
  boolean grant(int more) {
    granted += more;
    return more > 0 && granted <= announced;
  }

  /** The receiver has read this many more. */
  boolean credit(int more) {
    credited += more;
    return more > 0 && credited <= announced;
  }

  /**
   * Sends granted segments and updates what has left.
   *
   * @param written number of bytes of the socket that were written to it
   * @throws IOException also if the carrier fails before the receiver has read all
   */
  void advance(long written) throws IOException {
    while (next < announced) {
      int at = (int) (next % slots);
      if (end[at] < 0) {
        if (begun == granted || !carrier.send(at, bytes[at])) {
          break;
        }
        begun++;
      }
      next++;
    }
    // A segment that has left may still be lost, which only the carrier tells.
    long sent = begun > carried || !allRead() ? carrier.sent() : carried;
    while (left < next) {
      int at = (int) (left % slots);
      if (end[at] < 0 ? sent == carried : end[at] > written) {
        break;
      }
      carried += end[at] < 0 ? 1 : 0;
      gone += bytes[at];
      boolean full = open - left == slots;
      left++;
      if (full) {
        slot[(int) (open % slots)].clear();
      }
    }
  }
}
