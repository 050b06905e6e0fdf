package org.ep4j.group.rendezvous;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Join;
import org.jspecify.annotations.Nullable;

/**
 * Restarted processes that wait at a rendezvous to replace a departed rank, at most one per index.
 * Only the reactor thread accesses it.
 */
final class RejoinRequests {
  /** Notified when a process starts to wait, and when it disconnects before its admission. */
  interface Listener {
    /** Whether a process waits for the index. */
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
        connection.lose("it sent a frame of type " + type + " while it waits for admission");
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
   * @param liveness maximum silence of a waiting process
   */
  RejoinRequests(Duration liveness, Listener listener) {
    this.liveness = liveness;
    this.listener = listener;
  }

  /** The process that waits for an index. */
  @Nullable RejoinRequest of(int index) {
    return rejoins.get(index);
  }

  int count() {
    return rejoins.size();
  }

  /** Lets a process wait; no other process waits for its index. */
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

  /** Removes and returns all waiting processes, in the order of their indices. */
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

  /** Lets all waiting processes look for another rendezvous: a last word would end their search. */
  void disconnect() {
    take().forEach(rejoin -> rejoin.connection.close());
  }

  /** Disconnects all waiting processes. */
  void close(ByteBuffer lastWord) {
    for (RejoinRequest rejoin : take()) {
      rejoin.connection.closeAfter(lastWord.duplicate());
    }
  }
}
