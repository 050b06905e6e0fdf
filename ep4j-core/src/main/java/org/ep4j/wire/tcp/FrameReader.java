package org.ep4j.wire.tcp;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.ep4j.wire.Lane;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.jspecify.annotations.Nullable;

/**
 * Reads frames and applies them. All input is checked before use: lane, region, range, counter and
 * length.
 *
 * <p>The part of a payload that arrives with its header is copied from the staging buffer; the rest
 * of a long payload is read directly into its target.
 */
final class FrameReader {
  /** Bytes of the staging buffer. */
  static final int STAGING = 256 << 10;

  /**
   * Bytes read at once after a long payload, and beyond the missing bytes of a short one: bytes of
   * a long payload in the staging buffer need an extra copy.
   */
  private static final int PEEK = 4 << 10;

  /**
   * After this many short frames no long payload is expected, and each read takes all available
   * bytes.
   */
  private static final int FEW = 8;

  /** Maximum bytes per call, so that output and other connections are served. */
  private static final long BUDGET = 4L << 20;

  /**
   * Pause between two reads of a long payload, so that each read takes more: reads without a pause
   * take small pieces, and each disturbs the sender.
   */
  private static final long REST_NANOS = 65_000;

  /** No pause this close to the end of a payload, because a waiter may need it. */
  private static final int WORTH_A_REST = 256 << 10;

  /** Result of {@link #read} when the peer has sent GOODBYE. */
  static final long PEER_CLOSES = -2;

  /** Result of {@link #read} when the connection has ended. */
  static final long ENDED = -1;

  /** An invalid frame; the text is the reason. Thrown at most once per connection. */
  static final class BadFrame extends IOException {
    private static final long serialVersionUID = 1L;

    BadFrame(String message) {
      super(message);
    }
  }

  private final TcpWire wire;
  private final Connection connection;
  private final ByteBuffer staging;
  private final MemorySegment stagingBytes;

  // The frame whose payload is being read into its target; the view is null if there is none.
  private @Nullable ByteBuffer view;
  private @Nullable TcpRegion target;
  private long targetOffset;
  private int missing;
  private @Nullable TcpLane lane;
  private int counter;
  private boolean last;

  /** Short frames since the last long payload, up to a limit. */
  private int shorts = FEW;

  /** Missing bytes of a short payload whose beginning is staged. */
  private int lacking;

  private boolean resting;
  private long restEnd;

  // Work that has taken effect since the last acknowledgement.
  private int unacknowledged;
  private long unacknowledgedBytes;

  FrameReader(TcpWire wire, Connection connection, MemorySegment stagingBytes) {
    this.wire = wire;
    this.connection = connection;
    this.stagingBytes = stagingBytes;
    staging = stagingBytes.asByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    staging.limit(0);
  }

  int unacknowledged() {
    return unacknowledged;
  }

  long unacknowledgedBytes() {
    return unacknowledgedBytes;
  }

  void acknowledged() {
    unacknowledged = 0;
    unacknowledgedBytes = 0;
  }

  /** Ends a pause: all available bytes are read now. */
  void wake() {
    resting = false;
  }

  /**
   * Reads available bytes, up to a limit.
   *
   * @return bytes read, or {@link #ENDED}, or {@link #PEER_CLOSES}
   * @throws BadFrame if the peer has sent an invalid frame
   */
  long read(Pipe pipe) throws IOException {
    if (resting && System.nanoTime() - restEnd < 0) {
      return 0;
    }
    resting = false;
    long total = 0;
    while (total < BUDGET) {
      int read = missing > 0 ? readPayload(pipe) : readFrames(pipe);
      if (read < 0) {
        return read;
      }
      total += read;
      if (read == 0) {
        break;
      }
    }
    if (total > 0 && missing > WORTH_A_REST && !pipe.carried()) {
      resting = true;
      restEnd = System.nanoTime() + REST_NANOS;
    }
    return total;
  }

  private int readPayload(Pipe pipe) throws IOException {
    ByteBuffer into = view;
    if (into == null || !into.hasRemaining()) {
      into = target().viewAt(connection.number() * 2 + 1, targetOffset, missing);
      view = into;
    }
    int read = pipe.read(into);
    if (read > 0) {
      targetOffset += read;
      missing -= read;
      if (missing == 0) {
        view = null;
        finish();
        shorts = 0;
      }
    }
    return read;
  }

  private TcpRegion target() {
    TcpRegion region = target;
    if (region == null) {
      throw new IllegalStateException("no frame is being read");
    }
    return region;
  }

  private int readFrames(Pipe pipe) throws IOException {
    staging.compact();
    if (shorts < FEW) {
      staging.limit(Math.min(STAGING, staging.position() + lacking + PEEK));
    }
    lacking = 0;
    int read = pipe.read(staging);
    staging.flip();
    while (missing == 0 && staging.remaining() >= FrameLayout.HEADER) {
      int at = staging.position();
      byte type = FrameLayout.type(staging, at);
      if (type == FrameLayout.PUT) {
        if (!put(at)) {
          break;
        }
      } else if (type == FrameLayout.GOODBYE) {
        return (int) PEER_CLOSES;
      } else {
        control(type, at);
        shorts = Math.min(FEW, shorts + 1);
        staging.position(at + FrameLayout.HEADER);
      }
    }
    return read;
  }

  /** Applies the available part of a put; false if a short put is incomplete. */
  private boolean put(int at) throws BadFrame {
    int bytes = FrameLayout.bytes(staging, at);
    if (bytes < 0 || bytes > FrameLayout.MAX_PAYLOAD) {
      throw new BadFrame(
          "a frame of " + bytes + " bytes; the maximum is " + FrameLayout.MAX_PAYLOAD);
    }
    int here = staging.remaining() - FrameLayout.HEADER;
    if (bytes <= FrameWriter.COPIED && here < bytes) {
      lacking = bytes - here;
      return false;
    }
    lane = laneOf(at);
    counter = counterOf(at, Lane.NO_COUNTER);
    last = FrameLayout.isLast(staging, at);
    TcpRegion region = wire.region(FrameLayout.region(staging, at));
    long offset = FrameLayout.value(staging, at);
    if (region == null) {
      throw new BadFrame(
          "a put into region %d, which is closed or was never open"
              .formatted(FrameLayout.region(staging, at)));
    }
    if (offset < 0 || offset > region.bytes() - bytes) {
      throw new BadFrame(
          "a put of %d bytes at %d of a region of %d".formatted(bytes, offset, region.bytes()));
    }
    int copied = Math.min(bytes, here);
    int from = at + FrameLayout.HEADER;
    MemorySegment.copy(stagingBytes, from, region.own(), offset, copied);
    staging.position(from + copied);
    unacknowledgedBytes += bytes;
    missing = bytes - copied;
    if (missing == 0) {
      shorts = bytes > FrameWriter.COPIED ? 0 : Math.min(FEW, shorts + 1);
      finish();
    } else {
      target = region;
      targetOffset = offset + copied;
    }
    return true;
  }

  private void control(byte type, int at) throws BadFrame {
    TcpLane of = laneOf(at);
    if (type == FrameLayout.ADD) {
      wire.counters().add(counterOf(at, 0), FrameLayout.value(staging, at));
      applied(of);
    } else if (type != FrameLayout.ACK) {
      throw new BadFrame("a frame of type " + type);
    } else if (!of.acknowledge(FrameLayout.value(staging, at))) {
      throw new BadFrame("an acknowledgement of work that was not sent");
    }
  }

  private void finish() {
    TcpLane of = lane;
    if (last && of != null) {
      if (counter != Lane.NO_COUNTER) {
        wire.counters().add(counter, 1);
      }
      applied(of);
    }
  }

  private void applied(TcpLane of) {
    of.applied++;
    unacknowledged++;
  }

  private TcpLane laneOf(int at) throws BadFrame {
    int index = FrameLayout.lane(staging, at);
    TcpLane found = connection.lane(index);
    if (found == null) {
      throw new BadFrame("a frame of lane " + index + ", which this connection does not carry");
    }
    return found;
  }

  private int counterOf(int at, int least) throws BadFrame {
    int count = FrameLayout.counter(staging, at);
    if (count < least || count >= wire.counters().count()) {
      throw new BadFrame("a frame that counts " + count + ", which is not a counter");
    }
    return count;
  }
}
