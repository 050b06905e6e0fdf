package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.InFlightLimit;
import org.jspecify.annotations.Nullable;

/**
 * One connection to a peer, which carries some of the lanes to it, in both directions. When it is
 * lost its lanes are, and nothing brings them back. Touched by its strand's thread.
 */
final class Connection {
  /** The peer is told of its work at the latest when so much has taken effect. */
  private static final int MAX_UNACKNOWLEDGED = 32;

  private static final long MAX_UNACKNOWLEDGED_BYTES = 1 << 20;

  /** Or when nothing else has happened for so many polls. */
  private static final int IDLE_POLLS = 8;

  private final TcpWire wire;
  private final Pipe pipe;
  private final int peer;
  private final int number;
  private final TcpLane[] lanes;
  private final FrameWriter outgoing;
  private final FrameReader incoming;
  private @Nullable SelectionKey key;
  // The socket takes no more until the selector says so.
  private boolean blocked;
  private long left;
  private boolean failed;
  private boolean goodbyeSent;
  private int idlePolls;

  /**
   * A proven connection.
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
    outgoing = new FrameWriter(this, lanes, wire.arena());
    incoming = new FrameReader(wire, this, wire.arena());
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

  /** The lane of that index; null if another connection carries it, or none does. */
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

  /** Bytes that have left: what the pipe holds back has not. */
  long written() {
    return left;
  }

  void acknowledged() {
    incoming.acknowledged();
  }

  /** Writes what is due; how much was done. */
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

  /** Lets the next {@link #send} try again, where no selector says when. */
  void unblock() {
    blocked = false;
  }

  /** Whether there may be input that the selector does not know of. */
  boolean holdsInput() {
    return !failed && pipe.holdsInput();
  }

  /** The selector has found something; how much was done. */
  long ready(SelectionKey found) {
    if (failed || !found.isValid()) {
      return 0;
    }
    if (found.isWritable()) {
      block(false);
    }
    return found.isReadable() ? receive() : 1;
  }

  /** Reads what is there; how much was done. */
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
        fail(Cause.LOST, "the connection has ended without a word; " + wire.status(peer));
      }
      return read < 0 ? 1 : read;
    } catch (FrameReader.BadFrame e) {
      fail(Cause.PROTOCOL, "the peer has sent " + e.getMessage());
    } catch (IOException e) {
      lose(e);
    } catch (IllegalStateException e) {
      fail(Cause.PROTOCOL, "a put came into memory that was given back: " + e.getMessage());
    }
    return 1;
  }

  /** Reads what is there, whatever else; how much was done. */
  long receiveNow() {
    incoming.wake();
    return receive();
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

  /** Ends the connection and its lanes, once. */
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

  /** Closes the socket as it is. */
  void drop() {
    try {
      pipe.drop();
    } catch (IOException e) {
      // Nothing more can be done for it.
    }
  }

  /** Writes what has been begun, then the last frame; whether all has gone, or never will. */
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

  /** Makes no more frames: what is not on its way stays here. */
  void stop() {
    outgoing.stop();
  }

  /** Drops what comes in; whether the peer has ended its side. */
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
      // Ended, less politely.
    }
    return true;
  }
}
