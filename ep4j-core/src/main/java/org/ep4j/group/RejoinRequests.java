package org.ep4j.group;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.ep4j.group.Frames.Join;
import org.jspecify.annotations.Nullable;

/**
 * Restarted processes that wait at a rendezvous for the place of a rank that has departed, at most
 * one a seat. Touched by the reactor's thread only.
 */
final class RejoinRequests {
  /** Told when a process begins to wait, and when it goes away without having been admitted. */
  interface Listener {
    /** Whether a process waits for the seat. */
    void rejoining(int index, boolean waits);
  }

  /** A process that waits. */
  final class RejoinRequest implements FrameConnection.Listener {
    final FrameConnection connection;
    final Join join;

    private RejoinRequest(FrameConnection connection, Join join) {
      this.connection = connection;
      this.join = join;
    }

    @Override
    public void frame(FrameConnection connection, byte type, ByteBuffer body) {
      if (type != Frames.PING) {
        connection.lose("it sent a frame of type " + type + " while it waits to be admitted");
      }
    }

    @Override
    public void closed(FrameConnection connection, String why) {
      drop(this);
    }

    @Override
    public void silent(FrameConnection connection, Duration silence) {
      connection.closeAfter(
          Frames.text(Frames.VERDICT, "it was silent for " + Deadline.text(silence)));
      drop(this);
    }
  }

  private final Listener listener;
  private final Duration liveness;
  private final TreeMap<Integer, RejoinRequest> rejoins = new TreeMap<>();

  /**
   * @param liveness how long a process that waits may be silent
   */
  RejoinRequests(Duration liveness, Listener listener) {
    this.liveness = liveness;
    this.listener = listener;
  }

  /** The process that waits for a seat. */
  @Nullable RejoinRequest of(int index) {
    return rejoins.get(index);
  }

  int count() {
    return rejoins.size();
  }

  /** Lets a process wait; nobody else waits for its seat. */
  void add(FrameConnection connection, Join join) {
    RejoinRequest rejoin = new RejoinRequest(connection, join);
    rejoins.put(join.id(), rejoin);
    connection.listener(rejoin);
    connection.trust();
    connection.livenessTimeout(liveness);
    listener.rejoining(join.id(), true);
  }

  private void drop(RejoinRequest rejoin) {
    if (rejoins.remove(rejoin.join.id(), rejoin)) {
      listener.rejoining(rejoin.join.id(), false);
    }
  }

  /** All that wait, in the order of their seats; they wait no more. */
  List<RejoinRequest> take() {
    List<RejoinRequest> all = new ArrayList<>(rejoins.values());
    rejoins.clear();
    return all;
  }

  /** Sends a frame to all. */
  void broadcast(ByteBuffer frame) {
    for (RejoinRequest rejoin : rejoins.values()) {
      rejoin.connection.send(frame.duplicate());
    }
  }

  /** Parts from all. */
  void close(ByteBuffer lastWord) {
    for (RejoinRequest rejoin : take()) {
      rejoin.connection.closeAfter(lastWord.duplicate());
    }
  }
}
