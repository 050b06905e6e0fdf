package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.InFlightLimit;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.jspecify.annotations.Nullable;

/**
 * One connection to a peer, which carries some of the lanes to it in both directions. When the
 * connection is lost, its lanes fail permanently. Only the thread of the progress context accesses
 * it.
 */
final class Connection {
  /** Acknowledgements are sent at the latest after this much work has taken effect. */
  private static final int MAX_UNACKNOWLEDGED = 32;

  private static final long MAX_UNACKNOWLEDGED_BYTES = 1 << 20;

  /** Acknowledgements are sent after this many idle polls. */
  private static final int IDLE_POLLS = 8;

  private final TcpWire wire;
  private final Pipe pipe;
  private final int peer;
  private final int number;
  private final TcpLane[] lanes;
  private final FrameWriter outgoing;
  private final FrameReader incoming;
  private @Nullable SelectionKey key;
  // The socket accepts no more until the selector reports it writable.
  private boolean blocked;
  private long left;
  private boolean failed;
  private boolean goodbyeSent;
  private int idlePolls;

  /** Notices of peers that have been looked at, and what they say of this connection. */
  private int looked;

  private @Nullable String reported;

  /**
   * An authenticated connection.
   *
   * @param number of the connection among all of this rank, see {@link TcpRegion#viewAt}
   * @param index of the connection among those to the peer
   */
  Connection(TcpWire wire, Pipe pipe, int peer, int number, int index, InFlightLimit window) {
    this.wire = wire;
    this.pipe = pipe;
    this.peer = peer;
    this.number = number;
    WireConfig config = wire.config();
    lanes = new TcpLane[Math.ceilDiv(config.lanes() - index, config.connections())];
    for (int i = 0; i < lanes.length; i++) {
      lanes[i] = new TcpLane(wire, this, window, index + i * config.connections());
    }
    outgoing = new FrameWriter(this, lanes, wire.staging(FrameWriter.STAGING));
    incoming = new FrameReader(wire, this, wire.staging(FrameReader.STAGING));
  }

  void register(Selector selector) throws ClosedChannelException {
    key = pipe.channel().register(selector, SelectionKey.OP_READ, this);
  }

  int peer() {
    return peer;
  }

  boolean carried() {
    return pipe.carried();
  }

  int number() {
    return number;
  }

  /** The lane with that index; null if this connection does not carry it. */
  @Nullable TcpLane lane(int index) {
    int connections = wire.config().connections();
    int place = index / connections;
    return place < lanes.length && lanes[place].index() == index ? lanes[place] : null;
  }

  TcpLane[] lanes() {
    return lanes;
  }

  boolean failed() {
    return failed;
  }

  /** Number of bytes that have left; bytes held back in the pipe have not. */
  long written() {
    return left;
  }

  void acknowledged() {
    incoming.acknowledged();
  }

  /** Writes pending frames; returns the amount of work done. */
  long send() {
    idlePolls++;
    if (failed || blocked) {
      return 0;
    }
    boolean acknowledging = acknowledgementDue();
    try {
      if (pipe.holdsOutput()) {
        block(true);
        return 0;
      }
      left = outgoing.written() - pipe.inFlight();
      if (!acknowledging && !outgoing.waits()) {
        return 0;
      }
      idlePolls = 0;
      long written = outgoing.write(pipe, acknowledging);
      boolean more = written < 0;
      boolean held = pipe.holdsOutput();
      if (more || held) {
        block(true);
      }
      if (!held) {
        left = outgoing.written() - pipe.inFlight();
      }
      return more ? -1 - written : written;
    } catch (IOException e) {
      lose(e);
    } catch (IllegalStateException e) {
      fail(Cause.PROTOCOL, "a region was closed before its work had left: " + e.getMessage());
    }
    return 1;
  }

  private boolean acknowledgementDue() {
    int count = incoming.unacknowledged();
    return count >= MAX_UNACKNOWLEDGED
        || incoming.unacknowledgedBytes() >= MAX_UNACKNOWLEDGED_BYTES
        || (count > 0 && idlePolls >= IDLE_POLLS);
  }

  /** Lets the next {@link #send} try again, if no selector reports when the socket is writable. */
  void unblock() {
    blocked = false;
  }

  /** Whether there may be input that the selector does not see. */
  boolean holdsInput() {
    return !failed && pipe.holdsInput();
  }

  /** The selector has reported the channel; returns the amount of work done. */
  long ready(SelectionKey found) {
    if (failed || !found.isValid()) {
      return 0;
    }
    if (found.isWritable()) {
      block(false);
    }
    return found.isReadable() ? receive() : 1;
  }

  /** Reads available input; returns the amount of work done. */
  long receive() {
    if (failed) {
      return 0;
    }
    try {
      long read = incoming.read(pipe);
      if (read > 0) {
        idlePolls = 0;
      } else if (read == FrameReader.PEER_CLOSES) {
        fail(Cause.CLOSED, "the peer has closed its wire");
      } else if (read == FrameReader.ENDED) {
        fail(Cause.LOST, "the connection has ended without GOODBYE; " + wire.status(peer));
      }
      return read < 0 ? 1 : read;
    } catch (FrameReader.BadFrame e) {
      fail(Cause.PROTOCOL, "the peer has sent " + e.getMessage());
    } catch (IOException e) {
      lose(e);
    } catch (IllegalStateException e) {
      fail(Cause.PROTOCOL, "a put arrived for memory that was freed: " + e.getMessage());
    }
    return 1;
  }

  /** Reads available input, also if a read is not due; returns the amount of work done. */
  long receiveNow() {
    incoming.wake();
    return receive();
  }

  /**
   * Why the peer has failed its end of this connection; null if it has not reported any failure.
   */
  @Nullable String reported() {
    int now = wire.reports();
    if (now != looked) {
      looked = now;
      for (TcpLane lane : lanes) {
        String text = wire.reported(peer, lane.index());
        reported = text == null ? reported : text;
      }
    }
    return reported;
  }

  private void block(boolean on) {
    blocked = on;
    SelectionKey registered = key;
    if (registered != null && registered.isValid()) {
      registered.interestOps(
          on ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ);
    }
  }

  private void lose(IOException e) {
    fail(Cause.LOST, "the connection is lost: " + e.getMessage() + "; " + wire.status(peer));
  }

  /** Fails the connection and its lanes, once. */
  void fail(Cause cause, String text) {
    if (failed) {
      return;
    }
    failed = true;
    for (TcpLane lane : lanes) {
      lane.fail(cause, text);
    }
    wire.failed(lanes.length);
    drop();
  }

  /** Closes the socket immediately. */
  void drop() {
    try {
      pipe.drop();
    } catch (IOException e) {
      // Nothing more can be done for it.
    }
  }

  /** Writes pending frames, then GOODBYE. Returns whether all is written or can never be. */
  boolean sendGoodbye() {
    try {
      if (!failed && outgoing.write(pipe, false) >= 0) {
        if (!goodbyeSent) {
          goodbyeSent = true;
          outgoing.goodbye();
          outgoing.write(pipe, false);
        }
        if (!outgoing.holds() && pipe.mayEnd()) {
          pipe.end();
          return true;
        }
      }
      return failed;
    } catch (IOException | IllegalStateException e) {
      fail(Cause.LOST, "the connection is lost: " + e.getMessage());
      return true;
    }
  }

  /** Makes no more frames: work without a frame stays here. */
  void stop() {
    outgoing.stop();
  }

  /** Discards input. Returns whether the peer has ended its side. */
  boolean drain(ByteBuffer sink) {
    try {
      while (!failed) {
        sink.clear();
        int read = pipe.read(sink);
        if (read < 0) {
          return true;
        }
        if (read == 0) {
          return false;
        }
      }
    } catch (IOException e) {
      // The connection ended without GOODBYE.
    }
    return true;
  }
}
