package org.ep4j.group;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import org.jspecify.annotations.Nullable;

/**
 * The port at which the other members find this rank when the rendezvous is gone. It answers one
 * question: are you there, and where do you host the survivors? Touched by the reactor's thread
 * only, after its opening.
 */
final class PeerPort implements Link.Listener {
  private final Reactor reactor;
  private final Gate gate;
  private final LinkedHashSet<Link> waiting = new LinkedHashSet<>();
  private @Nullable Ledger ledger;
  private String jobId = "";
  private int rank;
  private int hostingPort;

  /** Starts listening; nobody is served before the reactor starts. */
  PeerPort(Reactor reactor, InetAddress address, String secret) throws IOException {
    this.reactor = reactor;
    gate =
        new Gate(
            reactor,
            new InetSocketAddress(address, 0),
            secret,
            Frames.Purpose.PEER,
            link -> link.listener(this));
  }

  InetSocketAddress address() {
    return gate.address();
  }

  /** Says whose port this is; before the reactor starts. */
  void belongsTo(int rank, String jobId, Ledger ledger) {
    this.rank = rank;
    this.jobId = jobId;
    this.ledger = ledger;
  }

  /** From now on sends whoever asks to the rendezvous at this port; 0 lets them wait again. */
  void hosting(int port) {
    hostingPort = port;
    if (port != 0) {
      for (Link link : new ArrayList<>(waiting)) {
        link.closeAfter(Frames.hosting(port));
      }
      waiting.clear();
    }
  }

  @Override
  public void frame(Link link, byte type, ByteBuffer body) {
    switch (type) {
      case Frames.ASK -> {
        int asker = body.getInt();
        boolean probe = body.get() != 0;
        answer(link, asker, probe, Frames.text(body));
      }
      case Frames.VERDICT -> judged(Frames.text(body));
      default -> link.lose("it sent a frame of type " + type + " to a peer port");
    }
  }

  private void answer(Link link, int asker, boolean probe, String job) {
    Ledger known = ledger;
    if (known == null || !job.equals(jobId) || asker < 0 || asker >= known.size()) {
      link.closeAfter(
          Frames.refused(
              JoinRefusedException.Reason.ANOTHER_JOB,
              "this port belongs to job " + jobId + ", and you asked for " + job));
      return;
    }
    Departure own = known.departure(rank);
    Departure theirs = known.departure(asker);
    if (own != null) {
      link.closeAfter(
          Frames.refused(JoinRefusedException.Reason.DECLARED_DEAD, "it is out: " + own.report()));
    } else if (theirs != null) {
      link.closeAfter(Frames.text(Frames.VERDICT, theirs.report()));
    } else if (probe) {
      link.closeAfter(Frames.ping());
    } else if (hostingPort != 0) {
      link.closeAfter(Frames.hosting(hostingPort));
    } else {
      link.trust();
      link.send(Frames.ping());
      waiting.add(link);
    }
  }

  /** Somebody gave this rank up. If this process was stopped, that was right. */
  private void judged(String text) {
    if (ledger != null && reactor.recentStall() > 0) {
      ledger.depart(rank, Departure.lost("declared dead by a peer: " + text));
    }
  }

  @Override
  public void closed(Link link, String why) {
    waiting.remove(link);
  }

  /** Lets those who wait know that this rank lives. */
  void tick() {
    for (Link link : waiting) {
      link.send(Frames.ping());
    }
  }

  void close() {
    waiting.forEach(Link::close);
    waiting.clear();
    gate.close();
  }
}
