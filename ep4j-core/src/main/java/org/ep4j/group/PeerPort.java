package org.ep4j.group;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import org.ep4j.group.Frames.Question;
import org.jspecify.annotations.Nullable;

/**
 * The port at which the other members find this rank when the rendezvous is gone. It answers one
 * question: are you there, and where do you host the survivors, or a new rendezvous of this group?
 * Touched by the reactor's thread only, after its opening.
 */
final class PeerPort implements FrameConnection.Listener {
  private final Reactor reactor;
  private final Acceptor acceptor;

  /** Who waits, and for what. */
  private final LinkedHashMap<FrameConnection, Question> waiting = new LinkedHashMap<>();

  /** Ports at which this rank hosts what is asked for; absent where it hosts nothing. */
  private final EnumMap<Question, Integer> hosting = new EnumMap<>(Question.class);

  private @Nullable GroupState state;
  private String jobId = "";
  private int rank;

  /** Starts listening; nobody is served before the reactor starts. */
  PeerPort(Reactor reactor, InetAddress address, String secret) throws IOException {
    this.reactor = reactor;
    acceptor =
        new Acceptor(
            reactor,
            new InetSocketAddress(address, 0),
            secret,
            Frames.Purpose.PEER,
            connection -> connection.listener(this));
  }

  InetSocketAddress address() {
    return acceptor.address();
  }

  /** Says whose port this is; before the reactor starts. */
  void belongsTo(int rank, String jobId, GroupState state) {
    this.rank = rank;
    this.jobId = jobId;
    this.state = state;
  }

  /** From now on sends whoever asks to the rendezvous at this port; 0 lets them wait again. */
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
          connection.lose("it asked what no version of this protocol asks");
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
              "this port belongs to job " + jobId + ", and you asked for " + job));
      return;
    }
    Departure own = known.departure(rank);
    Departure theirs = known.departure(asker);
    // Above 0 if a restarted process was admitted, and the rendezvous has yet to tell this rank.
    int newer = incarnation - known.incarnation(asker);
    Integer port = hosting.get(question);
    if (own != null) {
      connection.closeAfter(
          Frames.refused(JoinRefusedException.Reason.DECLARED_DEAD, "it is out: " + own.report()));
    } else if (newer < 0) {
      connection.closeAfter(
          Frames.text(Frames.VERDICT, "a restarted process has taken the place of rank " + asker));
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

  /** Somebody gave this rank up. If this process was stopped, that was right. */
  private void judged(String text) {
    if (state != null && reactor.recentStall() > 0) {
      state.depart(rank, Departure.lost("declared dead by a peer: " + text));
    }
  }

  @Override
  public void closed(FrameConnection connection, String why) {
    waiting.remove(connection);
  }

  /** Lets those who wait know that this rank lives. */
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
