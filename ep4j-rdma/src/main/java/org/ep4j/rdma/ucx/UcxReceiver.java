package org.ep4j.rdma.ucx;

import java.lang.foreign.MemorySegment;
import org.ep4j.rdma.ucx.bindings.NativeBytes;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure.Cause;

/**
 * Applies the frames of a connection. Every field of a message is validated first: order, lane,
 * region, range, counter and length.
 */
final class UcxReceiver {
  private static final MemorySegment ALL = NativeBytes.ALL;

  private final UcxWire wire;
  private final UcxConnection peerConnection;
  private long sequence;

  // Work that has taken effect and is not acknowledged.
  private int unacknowledged;
  private long unacknowledgedBytes;

  UcxReceiver(UcxWire wire, UcxConnection peerConnection) {
    this.wire = wire;
    this.peerConnection = peerConnection;
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

  /** Processes a message of this connection, whose header is already read. */
  void message(long address, long bytes) {
    sequence++;
    long number = MessageLayout.sequence(ALL, address);
    if (number != sequence) {
      refuse("message %d instead of %d".formatted(number, sequence));
      return;
    }
    long at = address + MessageLayout.HEADER;
    long end = address + bytes;
    while (at < end) {
      int payload = end - at < MessageLayout.FRAME ? -1 : MessageLayout.bytes(ALL, at);
      if (payload < 0 || payload > end - at - MessageLayout.FRAME) {
        refuse("a frame of " + payload + " bytes in a message of " + bytes);
        return;
      }
      if (!frame(MessageLayout.type(ALL, at), at, payload)) {
        return;
      }
      at += MessageLayout.FRAME + MessageLayout.padded(payload);
    }
  }

  /** Applies a frame; false if the rest of its message must be skipped. */
  private boolean frame(byte type, long at, int payload) {
    if (type == MessageLayout.GOODBYE) {
      peerConnection.receivedGoodbye(MessageLayout.value(ALL, at) == MessageLayout.ABORTS);
      return false;
    }
    if (!peerConnection.isOpen()) {
      return true;
    }
    if (type == MessageLayout.HELLO) {
      peerConnection.receivedHello(MessageLayout.value(ALL, at));
      return true;
    }
    UcxLane lane = peerConnection.lane(MessageLayout.lane(ALL, at));
    if (lane == null) {
      return refuse(
          "a frame of lane "
              + MessageLayout.lane(ALL, at)
              + ", which belongs to another connection");
    }
    return switch (type) {
      case MessageLayout.PUT -> put(lane, at, payload);
      case MessageLayout.ADD -> add(lane, at);
      case MessageLayout.ACK ->
          lane.acknowledge(MessageLayout.value(ALL, at))
              || refuse("an acknowledgement of work that was not sent");
      default -> refuse("a frame of type " + type);
    };
  }

  private boolean put(UcxLane lane, long at, int bytes) {
    int counter = MessageLayout.counter(ALL, at);
    if (counter < Lane.NO_COUNTER || counter >= wire.counters().count()) {
      return refuse("a put that counts counter " + counter + ", which does not exist");
    }
    int id = MessageLayout.region(ALL, at);
    UcxRegion region = wire.region(id);
    if (region == null) {
      return refuse("a put into region " + id + ", which is closed or does not exist");
    }
    long offset = MessageLayout.value(ALL, at);
    if (offset < 0 || offset > region.bytes() - bytes) {
      return refuse(
          "a put of %d bytes at offset %d of a region of %d"
              .formatted(bytes, offset, region.bytes()));
    }
    MemorySegment.copy(ALL, at + MessageLayout.FRAME, region.own(), offset, bytes);
    unacknowledgedBytes += bytes;
    if (MessageLayout.isLast(ALL, at)) {
      if (counter != Lane.NO_COUNTER) {
        wire.counters().add(counter, 1);
      }
      applied(lane);
    }
    return true;
  }

  private boolean add(UcxLane lane, long at) {
    int counter = MessageLayout.counter(ALL, at);
    if (counter < 0 || counter >= wire.counters().count()) {
      return refuse("an add to counter " + counter + ", which does not exist");
    }
    wire.counters().add(counter, MessageLayout.value(ALL, at));
    applied(lane);
    return true;
  }

  private void applied(UcxLane lane) {
    lane.applied++;
    unacknowledged++;
  }

  private boolean refuse(String what) {
    peerConnection.condemn(Cause.PROTOCOL, "the peer has sent " + what);
    return false;
  }
}
