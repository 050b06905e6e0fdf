package org.ep4j.rdma.ucx;

import java.lang.foreign.MemorySegment;

/** Packs the work of the lanes of a connection into messages, round robin over the lanes. */
final class MessageBuilder {
  /** Minimum size of a fragment of a put. */
  private static final int WORTH_A_FRAME = 512;

  private final UcxSendQueue sendQueue;
  private final MemorySegment staging;
  private final UcxLane[] lanes;
  private final long ticket;
  private final int rank;
  private final int connection;
  private int nextLane;
  private int nextAcknowledged;
  private boolean acknowledgedAll;
  private long at;
  private long end;

  MessageBuilder(UcxSendQueue sendQueue, UcxLane[] lanes, long ticket, int rank, int connection) {
    this.sendQueue = sendQueue;
    this.staging = sendQueue.staging();
    this.lanes = lanes;
    this.ticket = ticket;
    this.rank = rank;
    this.connection = connection;
  }

  /**
   * Builds a message in the send queue, which has space, if any work is due.
   *
   * @param visible number of the last put whose bytes are visible
   * @param acknowledging whether to acknowledge work of the peer without other frames
   * @param hello value of a greeting; 0 for none
   * @return its size in bytes; 0 if no message is due
   */
  int make(long visible, boolean acknowledging, long hello) {
    if (!acknowledging && hello == 0 && !anyWaits(visible)) {
      return 0;
    }
    begin();
    if (hello != 0) {
      frame(MessageLayout.HELLO, 0, hello);
    }
    acknowledge();
    int idle = 0;
    while (idle < lanes.length) {
      UcxLane lane = lanes[nextLane];
      nextLane = nextLane + 1 == lanes.length ? 0 : nextLane + 1;
      if (!lane.waitsForFrame(visible)) {
        idle++;
      } else if (frame(lane)) {
        idle = 0;
      } else {
        break;
      }
    }
    return finish();
  }

  /** Builds a message without frames. */
  int makeEmpty() {
    begin();
    return finish();
  }

  /**
   * Builds the last message, or one before it if the pending acknowledgements do not fit, see
   * {@link #acknowledgedAll}.
   */
  int makeGoodbye(boolean aborts) {
    begin();
    // Reserves space for the last frame, independent of the number of lanes.
    end -= MessageLayout.FRAME;
    acknowledge();
    if (acknowledgedAll) {
      frame(MessageLayout.GOODBYE, 0, aborts ? MessageLayout.ABORTS : MessageLayout.CLOSES);
    }
    return finish();
  }

  /** Whether the message acknowledges all work of the peer that it did not know of. */
  boolean acknowledgedAll() {
    return acknowledgedAll;
  }

  private void begin() {
    at = sendQueue.begin();
    end = at + MessageLayout.BYTES;
    MessageLayout.header(staging, at, ticket, rank, connection, sendQueue.sent() + 1);
    at += MessageLayout.HEADER;
  }

  private int finish() {
    return (int) (at - sendQueue.begin());
  }

  private boolean anyWaits(long visible) {
    for (UcxLane lane : lanes) {
      if (lane.waitsForFrame(visible)) {
        return true;
      }
    }
    return false;
  }

  /** Adds frames that acknowledge the work of the peer; the next message continues behind them. */
  private void acknowledge() {
    acknowledgedAll = true;
    for (int i = 0; i < lanes.length; i++) {
      UcxLane lane = lanes[nextAcknowledged];
      if (lane.acknowledged != lane.applied) {
        if (end - at < MessageLayout.FRAME) {
          acknowledgedAll = false;
          return;
        }
        frame(MessageLayout.ACK, lane.index(), lane.applied);
        lane.acknowledged = lane.applied;
      }
      nextAcknowledged = nextAcknowledged + 1 == lanes.length ? 0 : nextAcknowledged + 1;
    }
  }

  private void frame(byte type, int lane, long value) {
    MessageLayout.frame(staging, at, type, (byte) 0, lane, 0, 0, 0, value);
    at += MessageLayout.FRAME;
  }

  /** Builds a frame of the next work of the lane; false if the message has no space. */
  private boolean frame(UcxLane lane) {
    long space = end - at - MessageLayout.FRAME;
    if (space < 0) {
      return false;
    }
    int slot = lane.next();
    UcxRegion source = lane.local(slot);
    UcxRegion target = lane.remote(slot);
    if (source == null || target == null) {
      MessageLayout.frame(
          staging,
          at,
          MessageLayout.ADD,
          MessageLayout.LAST,
          lane.index(),
          0,
          UcxRegion.LOCAL,
          lane.counter(slot),
          lane.localOffset(slot));
      at += MessageLayout.FRAME;
      end(lane);
      return true;
    }
    long left = lane.lastPut[slot] != 0 ? 0 : lane.bytes(slot) - lane.framedBytes;
    int bytes = (int) Math.min(left, space);
    if (bytes < left && bytes < WORTH_A_FRAME) {
      return false;
    }
    boolean last = bytes == left;
    MessageLayout.frame(
        staging,
        at,
        MessageLayout.PUT,
        last ? MessageLayout.LAST : 0,
        lane.index(),
        bytes,
        target.id(),
        lane.counter(slot),
        lane.remoteOffset(slot) + lane.framedBytes);
    at += MessageLayout.FRAME;
    MemorySegment.copy(source.own(), lane.localOffset(slot) + lane.framedBytes, staging, at, bytes);
    at += MessageLayout.padded(bytes);
    lane.framedBytes += bytes;
    if (last) {
      end(lane);
    }
    return true;
  }

  private void end(UcxLane lane) {
    lane.framed++;
    lane.framedBytes = 0;
    lane.message = sendQueue.sent() + 1;
  }
}
