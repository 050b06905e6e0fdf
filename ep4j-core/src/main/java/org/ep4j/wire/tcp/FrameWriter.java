package org.ep4j.wire.tcp;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.jspecify.annotations.Nullable;

/**
 * Turns the work of a connection's lanes into frames, one lane after another, and writes them.
 * Short payloads are gathered with their headers in one buffer, so that one call writes many; long
 * payloads are written from their source.
 */
final class FrameWriter {
  /** Up to this size a copy costs less than a system call. */
  static final int COPIED = 16 << 10;

  /** Bytes of the staging buffer. */
  static final int STAGING = 256 << 10;

  /** Maximum bytes per call, so that input is served. */
  private static final long BUDGET = 8L << 20;

  private final Connection connection;
  private final TcpLane[] lanes;
  private final ByteBuffer staging;
  private final MemorySegment stagingBytes;
  private @Nullable ByteBuffer payload;
  private int nextLane;
  private boolean stopped;
  private long framed;
  private long written;

  FrameWriter(Connection connection, TcpLane[] lanes, MemorySegment stagingBytes) {
    this.connection = connection;
    this.lanes = lanes;
    this.stagingBytes = stagingBytes;
    staging = stagingBytes.asByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    staging.limit(0);
  }

  /** Number of bytes that have reached the pipe. */
  long written() {
    return written;
  }

  /** Whether there is anything to write. */
  boolean waits() {
    return holds() || anyWaits();
  }

  /** Whether there are frames that are not written. */
  boolean holds() {
    return staging.hasRemaining() || payload != null;
  }

  /**
   * Writes until all is written or the pipe accepts no more.
   *
   * @return bytes written, or -1 minus that if there is more
   */
  long write(Pipe pipe, boolean acknowledging) throws IOException {
    long before = written;
    boolean acks = acknowledging;
    while (written - before < BUDGET) {
      if (staging.hasRemaining()) {
        written += pipe.write(staging);
        if (staging.hasRemaining()) {
          return -1 - (written - before);
        }
      }
      ByteBuffer rest = payload;
      if (rest != null) {
        written += pipe.write(rest);
        if (rest.hasRemaining()) {
          return -1 - (written - before);
        }
        payload = null;
      }
      if (!frame(acks)) {
        return written - before;
      }
      acks = true;
    }
    return written - before;
  }

  /**
   * Makes frames until the staging buffer is full or a long payload is due. Returns whether a long
   * payload is due.
   */
  private boolean frame(boolean acknowledging) {
    if (stopped) {
      return false;
    }
    staging.clear();
    boolean work = frameWork(acknowledging);
    staging.flip();
    return work;
  }

  private boolean frameWork(boolean acknowledging) {
    if (acknowledging || anyWaits()) {
      acknowledge();
    }
    int idle = 0;
    while (payload == null && idle < lanes.length) {
      TcpLane lane = lanes[nextLane];
      nextLane = nextLane + 1 == lanes.length ? 0 : nextLane + 1;
      if (!lane.waits()) {
        idle++;
      } else if (frame(lane)) {
        idle = 0;
      } else {
        break;
      }
    }
    framed += staging.position();
    return staging.position() > 0;
  }

  private boolean anyWaits() {
    for (TcpLane lane : lanes) {
      if (lane.waits()) {
        return true;
      }
    }
    return false;
  }

  /** Acknowledges the peer's work that has taken effect. */
  private void acknowledge() {
    for (TcpLane lane : lanes) {
      if (lane.acknowledged != lane.applied && staging.remaining() >= FrameLayout.HEADER) {
        FrameLayout.append(staging, FrameLayout.ACK, (byte) 0, lane.index(), 0, 0, 0, lane.applied);
        lane.acknowledged = lane.applied;
      }
    }
    connection.acknowledged();
  }

  /** Makes a frame of the lane's next work; false if there is no room. */
  private boolean frame(TcpLane lane) {
    int slot = lane.next();
    TcpRegion source = lane.local(slot);
    TcpRegion target = lane.remote(slot);
    if (source == null || target == null) {
      if (staging.remaining() < FrameLayout.HEADER) {
        return false;
      }
      FrameLayout.append(
          staging,
          FrameLayout.ADD,
          FrameLayout.LAST,
          lane.index(),
          0,
          TcpRegion.LOCAL,
          lane.counter(slot),
          lane.localOffset(slot));
      end(lane);
      return true;
    }
    int bytes = (int) Math.min(lane.bytes(slot) - lane.framedBytes, FrameLayout.MAX_PAYLOAD);
    boolean copied = bytes <= COPIED;
    if (staging.remaining() < FrameLayout.HEADER + (copied ? bytes : 0)) {
      return false;
    }
    long from = lane.localOffset(slot) + lane.framedBytes;
    ByteBuffer view = null;
    if (!copied) {
      view = source.viewAt(connection.number() * 2, from, bytes);
      bytes = view.remaining();
    }
    boolean last = lane.framedBytes + bytes == lane.bytes(slot);
    FrameLayout.append(
        staging,
        FrameLayout.PUT,
        last ? FrameLayout.LAST : 0,
        lane.index(),
        bytes,
        target.id(),
        lane.counter(slot),
        lane.remoteOffset(slot) + lane.framedBytes);
    if (view == null) {
      MemorySegment.copy(source.own(), from, stagingBytes, staging.position(), bytes);
      staging.position(staging.position() + bytes);
    } else {
      payload = view;
      framed += bytes;
    }
    lane.framedBytes += bytes;
    if (last) {
      end(lane);
    }
    return true;
  }

  private void end(TcpLane lane) {
    lane.framed++;
    lane.framedBytes = 0;
    lane.frameEnd = framed + staging.position();
  }

  /** Makes no more frames; those in progress are still written. */
  void stop() {
    stopped = true;
  }

  /** Makes the last frame, behind the last acknowledgements; all earlier frames are written. */
  void goodbye() {
    staging.clear();
    acknowledge();
    FrameLayout.append(staging, FrameLayout.GOODBYE, (byte) 0, 0, 0, 0, 0, 0);
    staging.flip();
  }
}
