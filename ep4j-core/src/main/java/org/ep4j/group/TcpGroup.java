package org.ep4j.group;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.BitSet;
import java.util.Objects;
import org.ep4j.group.Frames.Welcome;
import org.jspecify.annotations.Nullable;

/**
 * A rank that is a process of its own, with a connection to the rendezvous.
 *
 * <p>One reactor thread owns the connection and enters what it hears into the ledger; callers of
 * collectives wait there. It also sends heartbeats, and watches for those of the rendezvous.
 */
final class TcpGroup extends MemberGroup implements Link.Listener {
  private static final Duration LONGEST_LEAVE = Duration.ofMillis(1500);

  private final GroupConfig config;
  private final Welcome welcome;
  private final Ledger ledger;
  private final Reactor reactor;
  private final PeerPort peerPort;
  private final Link link;
  private final @Nullable Rendezvous own;
  // Written and read by the reactor's thread.
  private boolean closing;
  private boolean rendezvousLost;

  /** {@link Group#join}. */
  static Group join(GroupConfig config) {
    if (config.size() == 1 && config.secret().isEmpty()) {
      return InProcessGroup.world(1).getFirst();
    }
    if (config.port() == 0) {
      throw new IllegalArgumentException("port is 0; a rank needs the port of the rendezvous");
    }
    Deadline deadline = Deadline.after(config.joinTimeout());
    Rendezvous own = config.hostsRendezvous() ? Rendezvous.hostedByRank(config) : null;
    try {
      return join(config, own, deadline, true);
    } catch (IOException e) {
      throw new GroupException("cannot join: " + e, e);
    }
  }

  /**
   * Joins at the rendezvous that the configuration names.
   *
   * @param own that rendezvous if this process hosts it; belongs to the group from now on, and is
   *     closed if joining fails
   * @param patient as for {@link Joining}
   */
  static TcpGroup join(
      GroupConfig config, @Nullable Rendezvous own, Deadline deadline, boolean patient)
      throws IOException {
    Reactor reactor =
        new Reactor(
            "ep4j-group-" + config.rank(), config.heartbeatInterval(), config.livenessTimeout());
    String failure = "rank " + config.rank() + ", who hosts it, could not join";
    boolean done = false;
    try {
      InetSocketAddress here = own == null ? null : own.reachedFromHere();
      Joining.Admission admission = new Joining(config, here, deadline, reactor, patient).join();
      TcpGroup group = new TcpGroup(config, admission, reactor, own);
      reactor.start(group::tick, group::rendezvousLost);
      done = true;
      return group;
    } catch (GroupException e) {
      failure = String.valueOf(e.getMessage());
      throw e;
    } finally {
      if (!done) {
        reactor.close();
        if (own != null) {
          own.close(failure);
        }
      }
    }
  }

  private TcpGroup(
      GroupConfig config, Joining.Admission admission, Reactor reactor, @Nullable Rendezvous own)
      throws IOException {
    this(config, admission, reactor, own, ledger(admission.welcome()));
  }

  private TcpGroup(
      GroupConfig config,
      Joining.Admission admission,
      Reactor reactor,
      @Nullable Rendezvous own,
      Ledger ledger)
      throws IOException {
    super(
        admission.welcome().rank(),
        admission.welcome().size(),
        admission.welcome().jobId(),
        ledger);
    this.config = config;
    this.welcome = admission.welcome();
    this.ledger = ledger;
    this.reactor = reactor;
    this.peerPort = admission.peerPort();
    this.own = own;
    peerPort.belongsTo(welcome.rank(), welcome.jobId(), ledger);
    try (Door door = admission.door()) {
      link = new Link(reactor, door.channel(), this);
      door.release();
    }
    link.trust();
    link.watch(config.livenessTimeout());
  }

  private static Ledger ledger(Welcome welcome) {
    BitSet readers = new BitSet();
    readers.set(welcome.rank());
    return new Ledger(welcome.size(), readers, () -> {});
  }

  GroupConfig config() {
    return config;
  }

  Ledger ledger() {
    return ledger;
  }

  /** Where the peer port of a rank listens. */
  InetSocketAddress peer(int rank) {
    return welcome.peers().get(rank);
  }

  /** Where the peer port of this rank was opened: all addresses of the host, or one of them. */
  InetSocketAddress listensAt() {
    return peerPort.address();
  }

  /** Announces the rendezvous for survivors at the peer port; 0 takes that back. */
  void hosting(int port) {
    reactor.post(() -> peerPort.hosting(port));
  }

  @Override
  public boolean inProcess() {
    return size() == 1;
  }

  @Override
  public JobKey key() {
    return JobKey.of(config.secret(), jobId());
  }

  @Override
  public InetAddress address(int rank) {
    return peer(rank).getAddress();
  }

  @Override
  void contribute(long number, Ledger.Kind kind, byte[] part) {
    ByteBuffer frame = Frames.part(rank(), number, kind, part);
    reactor.post(() -> link.send(frame));
  }

  @Override
  Group formSurvivors(Deadline deadline) {
    return new Succession(this, deadline).form();
  }

  @Override
  public void frame(Link link, byte type, ByteBuffer body) {
    switch (type) {
      case Frames.PING -> {}
      case Frames.PART -> {
        int rank = body.getInt();
        long number = body.getLong();
        Ledger.Kind kind = Objects.requireNonNull(Ledger.Kind.of(body.get()), "kind");
        ledger.contribute(rank, number, kind, Frames.rest(body));
      }
      case Frames.DEPARTED -> {
        int rank = body.getInt();
        boolean left = body.get() != 0;
        ledger.depart(rank, new Departure(left, Frames.text(body)));
      }
      case Frames.VERDICT -> {
        link.close();
        judged("declared dead by the rendezvous: " + Frames.text(body));
      }
      case Frames.GOODBYE -> {
        link.close();
        rendezvousLost("it was closed: " + Frames.text(body));
      }
      default -> link.lose("it sent a frame of type " + type);
    }
  }

  @Override
  public void closed(Link link, String why) {
    rendezvousLost(why);
  }

  @Override
  public void silent(Link link, Duration silence) {
    String why = "it was silent for " + Deadline.text(silence);
    link.closeAfter(Frames.text(Frames.VERDICT, why));
    rendezvousLost(why);
  }

  private void rendezvousLost(String why) {
    if (closing || rendezvousLost) {
      return;
    }
    rendezvousLost = true;
    judgeStall();
    int host = welcome.hostRank();
    Departure departure = host < 0 ? null : ledger.departure(host);
    if (departure != null) {
      ledger.down(
          host, "the rendezvous ended with rank %d: %s".formatted(host, departure.report()));
    } else {
      if (host >= 0 && host != rank()) {
        ledger.depart(host, Departure.lost("it hosted the rendezvous; " + why));
      }
      ledger.down(host, "the rendezvous is lost: %s; survivors() makes a new group".formatted(why));
    }
  }

  /**
   * Without a rendezvous that says so, a rank that was stopped knows that it is counted as dead.
   */
  private void judgeStall() {
    long stall = reactor.recentStall();
    if (rendezvousLost && stall > config.livenessTimeout().toNanos()) {
      judged(
          "this process was stopped for %s, longer than the liveness timeout"
              .formatted(Deadline.text(Duration.ofNanos(stall))));
    }
  }

  private void judged(String why) {
    Departure departure = Departure.lost(why);
    ledger.depart(rank(), departure);
    ledger.down(rank(), "this rank is out of the group: " + departure.report());
  }

  private void tick() {
    link.send(Frames.ping());
    peerPort.tick();
    judgeStall();
  }

  @Override
  void depart(Departure departure) {
    ledger.depart(rank(), departure);
    ledger.down(rank(), "the group of rank " + rank() + " was closed");
    reactor.post(
        () -> {
          closing = true;
          link.closeAfter(Frames.leave(departure));
          peerPort.close();
        });
    reactor.close(LONGEST_LEAVE);
    if (own != null) {
      own.closeGate();
      if (departure.left()) {
        // Most programs end on all ranks at once; the process of this one is still needed for that.
        own.awaitEnd(config.livenessTimeout());
      }
    }
  }
}
