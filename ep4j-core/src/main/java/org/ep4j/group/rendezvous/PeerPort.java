package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.protocol.Acceptor;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Question;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.Reactor;
import org.jspecify.annotations.Nullable;

/**
 * The port at which the other members reach this rank when the rendezvous is lost. Answers one
 * question: whether this rank is alive, and where it hosts the survivors or a new rendezvous of
 * this group. After its opening only the reactor thread accesses it.
 */
final class PeerPort implements FrameConnection.Listener {
  private final Reactor reactor;
  private final Acceptor acceptor;

  /** The waiting connections and their questions. */
  private final LinkedHashMap<FrameConnection, Question> waiting = new LinkedHashMap<>();

  /** Port at which this rank hosts what is asked for; no entry if it hosts nothing. */
  private final EnumMap<Question, Integer> hosting = new EnumMap<>(Question.class);

  private @Nullable GroupState state;
  private String jobId = "";
  private int rank;

  /** Starts listening; connections are served after the reactor starts. */
  PeerPort(Reactor reactor, InetAddress address, int ranks, JobKey secretKey) throws IOException {
    this.reactor = reactor;
    acceptor =
        new Acceptor(
            reactor,
            new InetSocketAddress(address, 0),
            ranks,
            secretKey,
            Frames.Purpose.PEER,
            connection -> connection.listener(this));
  }

  InetSocketAddress address() {
    return acceptor.address();
  }

  /** Sets the owner of the port; called before the reactor starts. */
  void belongsTo(int rank, String jobId, GroupState state) {
    this.rank = rank;
    this.jobId = jobId;
    this.state = state;
  }

  /**
   * Refers connections that ask the question to the rendezvous at this port; with 0 they wait
   * again.
   */
  void hosting(Question question, int port) {
    if (port == 0) {
      hosting.remove(question);
      return;
    }
    hosting.put(question, port);
    for (FrameConnection connection : new ArrayList<>(waiting.keySet())) {
      if (waiting.get(connection) == question) {
        waiting.remove(connection);
        connection.closeAfter(Frames.hosting(port));
      }
    }
  }

  @Override
  public void frame(FrameConnection connection, byte type, ByteBuffer body) {
    switch (type) {
      case Frames.ASK -> {
        int asker = body.getInt();
        int incarnation = body.getInt();
        Question question = Question.of(body.get());
        if (question == null) {
          connection.lose("it asked an unknown question");
        } else {
          answer(connection, asker, incarnation, question, Frames.text(body));
        }
      }
      case Frames.VERDICT -> judged(Frames.text(body));
      default -> connection.lose("it sent a frame of type " + type + " to a peer port");
    }
  }

  private void answer(
      FrameConnection connection, int asker, int incarnation, Question question, String job) {
    GroupState known = state;
    if (known == null || !job.equals(jobId) || asker < 0 || asker >= known.size()) {
      connection.closeAfter(
          Frames.refused(
              JoinRefusedException.Reason.ANOTHER_JOB,
              "this port belongs to job " + jobId + ", the request is for job " + job));
      return;
    }
    Departure own = known.departure(rank);
    Departure theirs = known.departure(asker);
    // Above 0 if a restarted process was admitted, and the rendezvous has not notified this rank
    // yet.
    int newer = incarnation - known.incarnation(asker);
    Integer port = hosting.get(question);
    if (own != null) {
      connection.closeAfter(
          Frames.refused(JoinRefusedException.Reason.DECLARED_DEAD, "it is out: " + own.report()));
    } else if (newer < 0) {
      connection.closeAfter(
          Frames.text(Frames.VERDICT, "a restarted process has replaced rank " + asker));
    } else if (newer == 0 && theirs != null) {
      connection.closeAfter(Frames.text(Frames.VERDICT, theirs.report()));
    } else if (question == Question.PROBE) {
      connection.closeAfter(Frames.ping());
    } else if (port != null) {
      connection.closeAfter(Frames.hosting(port));
    } else {
      connection.trust();
      connection.send(Frames.ping());
      waiting.put(connection, question);
    }
  }

  /** A peer has declared this rank dead. The peer is right if this process was stopped. */
  private void judged(String text) {
    if (state != null && reactor.recentStall() > 0) {
      state.depart(rank, Departure.lost("declared dead by a peer: " + text));
    }
  }

  @Override
  public void closed(FrameConnection connection, String why) {
    waiting.remove(connection);
  }

  /** Sends heartbeats to the waiting connections. */
  void tick() {
    for (FrameConnection connection : waiting.keySet()) {
      connection.send(Frames.ping());
    }
  }

  void close() {
    waiting.keySet().forEach(FrameConnection::close);
    waiting.clear();
    acceptor.close();
  }
}
