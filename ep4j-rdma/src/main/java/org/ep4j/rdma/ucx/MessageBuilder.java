package org.ep4j.rdma.ucx;

import java.lang.foreign.MemorySegment;

/** Turns the work of a link's lanes into messages, lane by lane in turn. */
final class MessageBuilder {
  /** A put is not cut for less than this. */
  private static final int WORTH_A_FRAME = 512;

  private final UcxSendQueue sendQueue;
  private final MemorySegment staging;
  private final UcxLane[] lanes;
  private final long ticket;
  private final int rank;
  private final int connection;
  private int nextLane;
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
   * Makes a message in the outbox, which has room, if anything is due.
   *
   * @param visible number of the last put whose bytes are visible
   * @param acknowledging whether the peer must be told of its work though there is no other
   * @param hello value of a greeting; 0 for none
   * @return its bytes; 0 if there is none
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

  /** Makes a message without frames. */
  int makeEmpty() {
    begin();
    return finish();
  }

  /** Makes the last message, with what the peer should still know. */
  int makeGoodbye(boolean aborts) {
    begin();
    // Room for the last frame, however many lanes there are.
    end -= MessageLayout.FRAME;
    acknowledge();
    frame(MessageLayout.GOODBYE, 0, aborts ? MessageLayout.ABORTS : MessageLayout.CLOSES);
    return finish();
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

  /** Tells the peer how much of its work has taken effect. */
  private void acknowledge() {
    for (UcxLane lane : lanes) {
      if (lane.acknowledged != lane.applied && end - at >= MessageLayout.FRAME) {
        frame(MessageLayout.ACK, lane.index(), lane.applied);
        lane.acknowledged = lane.applied;
      }
    }
  }

  private void frame(byte type, int lane, long value) {
    MessageLayout.frame(staging, at, type, (byte) 0, lane, 0, 0, 0, value);
    at += MessageLayout.FRAME;
  }

  /** Makes a frame of the lane's next work; false if it finds no room. */
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
