package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * One direction of a {@link CarriedPipe}, at the sender: segments in a ring of slots, by number
 * from 0. {@code left <= announced <= open}; those from {@code announced} on are whole, but for the
 * open one, which grows.
 */
final class SegmentsOut {
  /** As long as so many are under way, the next one grows instead of going. */
  private static final int PIPELINED = 2;

  private final Carrier carrier;
  private final int slots;
  private final ByteBuffer[] slot;

  /** Bytes of each segment. */
  private final int[] bytes;

  /** With which byte of the socket a segment ends; -1 for one that the carrier has. */
  private final long[] end;

  private long open;
  private long announced;
  private long left;

  /** Segments that the receiver has read. */
  private long credited;

  // Of the segments that the carrier has: granted by the receiver, and begun.
  private long granted;
  private long begun;

  /** The segment to look at when the next one begins; not behind {@code announced}. */
  private long next;

  // Of all bytes: accepted here, and gone.
  private long accepted;
  private long gone;

  // Of the carrier's segments, how many are among those that have left.
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

  /** Bytes that have been written and not left. */
  long inFlight() {
    return accepted - gone;
  }

  /** Whether there is a segment that grows no more and was not announced. */
  boolean holdsWhole() {
    return announced < open;
  }

  /** Whether the receiver has read everything that was announced. */
  boolean allRead() {
    return credited == announced;
  }

  /** Takes what there is room for. */
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
   * Announces what is due behind what already waits for the socket.
   *
   * @param queued bytes that were ever put into {@code socket}
   * @return the same, with what was added
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

  /** Whether there is a segment to announce; closes the open one when it is time for it. */
  private boolean due() {
    if (announced == open && open - left < PIPELINED) {
      if (slot[(int) (open % slots)].position() == 0) {
        return false;
      }
      seal();
    }
    return announced < open;
  }

  /** The receiver has begun to receive so many more. */
  boolean grant(int more) {
    granted += more;
    return more > 0 && granted <= announced;
  }

  /** The receiver has read so many more. */
  boolean credit(int more) {
    credited += more;
    return more > 0 && credited <= announced;
  }

  /**
   * Sends what may be sent, and looks what has left.
   *
   * @param written bytes of the socket that have been written to it
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
    long sent = begun > carried ? carrier.sent() : carried;
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
