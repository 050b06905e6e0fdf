package org.ep4j.group.rendezvous;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.IntConsumer;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames;

/**
 * The connections of programs that observe the job without being members. The reactor thread of the
 * rendezvous accesses them.
 */
final class Observers {
  /** Maximum number at once: each question costs every member an answer. */
  private static final int MAX = 16;

  /** An observer that asks nothing for so long has been forgotten. */
  private static final Duration IDLE_TIMEOUT = Duration.ofMinutes(5);

  private final Map<Integer, FrameConnection> connections = new HashMap<>();
  private final IntConsumer ask;
  private int last;

  /**
   * @param ask called with the number of an observer that asks
   */
  Observers(IntConsumer ask) {
    this.ask = ask;
  }

  /** Takes a connection that has just asked for the first time. */
  void add(FrameConnection connection) {
    if (connections.size() == MAX) {
      connection.closeAfter(
          Frames.refused(
              JoinRefusedException.Reason.TOO_MANY_OBSERVERS,
              "the job has " + MAX + " observers already: end one of them"));
      return;
    }
    int number = ++last;
    connections.put(number, connection);
    connection.trust();
    connection.livenessTimeout(IDLE_TIMEOUT);
    connection.listener(
        new FrameConnection.Listener() {
          @Override
          public void frame(FrameConnection connection, byte type, ByteBuffer body) {
            if (type == Frames.OBSERVE) {
              ask.accept(number);
            } else {
              connection.lose("it sent a frame of type " + type + ", which observers do not send");
            }
          }

          @Override
          public void closed(FrameConnection connection, String why) {
            connections.remove(number);
          }
        });
    ask.accept(number);
  }

  /** Sends the first answer to a question. */
  void asked(int observer, ByteBuffer frame) {
    FrameConnection connection = connections.get(observer);
    if (connection != null) {
      connection.send(frame);
    }
  }

  /** Passes the answer of a member on; the observer may have left. */
  void pass(ByteBuffer body) {
    FrameConnection connection = connections.get(body.getInt(body.position()));
    if (connection != null) {
      connection.send(Frames.bytes(Frames.OBSERVATION, Frames.rest(body)));
    }
  }
}
