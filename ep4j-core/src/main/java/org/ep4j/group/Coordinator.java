package org.ep4j.group;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.ep4j.group.Frames.Join;
import org.ep4j.group.JoinRefusedException.Reason;
import org.jspecify.annotations.Nullable;

/**
 * The rendezvous's knowledge of its group, and what it tells the members. Touched by one reactor
 * thread only.
 *
 * <p>While the group forms, guests take seats. The seats are the ranks, or, for survivors of an
 * older group, the ranks of that group; seats of the dead are excused. A guest that goes away gives
 * its seat back. When every seat is taken or excused, the guests become members with new ranks in
 * the order of their seats, and from then on nobody comes in any more.
 *
 * <p>Afterwards every part of a collective and every departure goes to all members, in the one
 * order in which this thread saw them. The parts of a rank come before its departure.
 */
final class Coordinator {
  /** What a group is to be, before anybody is there. */
  record Plan(
      int seats, BitSet excused, String job, String jobId, int hostSeat, Duration liveness) {}

  /** How long a guest may be silent while the group forms: hosts are busy starting JVMs then. */
  private static final Duration FORMING_LIVENESS = Duration.ofSeconds(10);

  /** A guest, then a member. */
  private final class Member implements Link.Listener {
    final Link link;
    final Join join;
    int rank = -1;
    long calls;
    boolean departed;

    Member(Link link, Join join) {
      this.link = link;
      this.join = join;
    }

    @Override
    public void frame(Link link, byte type, ByteBuffer body) {
      switch (type) {
        case Frames.PING -> {}
        case Frames.PART -> relay(this, body);
        case Frames.LEAVE -> leave(this, Frames.text(body));
        case Frames.VERDICT -> judged(this, Frames.text(body));
        default -> link.lose("it sent a frame of type " + type + ", which a member does not send");
      }
    }

    @Override
    public void closed(Link link, String why) {
      depart(this, Departure.lost(why + " (its process ended, or the network did)"));
    }

    @Override
    public void silent(Link link, Duration silence) {
      String why = "it was silent for " + Deadline.text(silence);
      link.closeAfter(Frames.text(Frames.VERDICT, why));
      depart(this, Departure.lost(why));
    }
  }

  private final Plan plan;
  private final Reactor reactor;
  private final Runnable onEnd;
  private final @Nullable Member[] seats;
  private final BitSet excused;
  private final List<Member> members = new ArrayList<>();
  private final @Nullable Departure[] departures;
  private boolean formed;
  private boolean ended;

  /**
   * @param onEnd run when the group had members and has none any more
   */
  Coordinator(Plan plan, Reactor reactor, Runnable onEnd) {
    this.plan = plan;
    this.reactor = reactor;
    this.onEnd = onEnd;
    this.seats = new Member[plan.seats()];
    this.departures = new Departure[plan.seats()];
    this.excused = (BitSet) plan.excused().clone();
  }

  /** Takes in a guest that knows the secret; it still has to say which rank it is. */
  void admit(Link link) {
    link.listener(
        new Link.Listener() {
          @Override
          public void frame(Link link, byte type, ByteBuffer body) {
            if (type == Frames.JOIN) {
              seat(link, Frames.join(body));
            } else {
              link.lose("it did not join");
            }
          }

          @Override
          public void closed(Link link, String why) {}
        });
  }

  private void seat(Link link, Join join) {
    Refusal refusal = refusal(join);
    if (refusal != null) {
      link.closeAfter(Frames.refused(refusal.reason(), refusal.text()));
      return;
    }
    Member member = new Member(link, join);
    seats[join.id()] = member;
    link.listener(member);
    link.trust();
    link.watch(FORMING_LIVENESS);
    link.send(Frames.pending(missing()));
    formIfComplete();
  }

  private record Refusal(Reason reason, String text) {}

  private @Nullable Refusal refusal(Join join) {
    int id = join.id();
    if (ended) {
      return new Refusal(Reason.CLOSED, "this group has ended");
    }
    if (!plan.job().isEmpty() && !join.job().isEmpty() && !plan.job().equals(join.job())) {
      return new Refusal(
          Reason.ANOTHER_JOB,
          "this rendezvous serves job '%s', you belong to job '%s'; give each job a port of its own"
              .formatted(plan.job(), join.job()));
    }
    if (join.ids() != plan.seats()) {
      return new Refusal(
          Reason.WRONG_WORLD_SIZE,
          "rank %d counts on a world of %d ranks, this job has %d; either its world size is wrong, or"
                  .formatted(id, join.ids(), plan.seats())
              + " it belongs to another job");
    }
    if (id < 0 || id >= plan.seats()) {
      return new Refusal(
          Reason.RANK_OUT_OF_RANGE,
          "rank %d is not in a world of %d ranks: 0 to %d"
              .formatted(id, plan.seats(), plan.seats() - 1));
    }
    if (join.peerPort() < 1 || join.peerPort() > 65_535) {
      return new Refusal(
          Reason.WRONG_PROTOCOL, "your peer port is %d, which is none".formatted(join.peerPort()));
    }
    Departure departure = departures[id];
    if (departure != null || excused.get(id)) {
      return new Refusal(
          Reason.DECLARED_DEAD,
          "rank %d is out of this group and cannot come back: %s"
              .formatted(id, departure == null ? "it was declared dead" : departure.report()));
    }
    Member holder = seats[id];
    if (holder != null) {
      return new Refusal(
          Reason.DUPLICATE_RANK,
          "rank %d is process %d at %s already; either two processes were started as this rank, or"
                  .formatted(id, holder.join.pid(), holder.link.remote().getHostString())
              + " another job uses this port");
    }
    return null;
  }

  /** Goes on without a seat of the old group, whose rank is known to be dead. */
  void excuse(int id) {
    if (!formed && !excused.get(id)) {
      excused.set(id);
      Member member = seats[id];
      seats[id] = null;
      if (member != null) {
        member.departed = true;
        member.link.closeAfter(Frames.text(Frames.VERDICT, "the other survivors had lost you"));
      }
      formIfComplete();
    }
  }

  /** The seats that are neither taken nor excused; none once the group has formed. */
  int[] missing() {
    BitSet missing = new BitSet();
    for (int id = 0; id < seats.length && !formed; id++) {
      missing.set(id, seats[id] == null && !excused.get(id));
    }
    return missing.stream().toArray();
  }

  private void formIfComplete() {
    if (missing().length > 0) {
      return;
    }
    formed = true;
    for (Member member : seats) {
      if (member != null) {
        member.rank = members.size();
        members.add(member);
        member.link.watch(plan.liveness());
      }
    }
    Member host = plan.hostSeat() < 0 ? null : seats[plan.hostSeat()];
    int hostRank = host == null ? -1 : host.rank;
    for (Member member : List.copyOf(members)) {
      List<InetSocketAddress> peers = new ArrayList<>();
      for (Member peer : members) {
        peers.add(addressFor(member, peer));
      }
      member.link.send(
          Frames.welcome(
              new Frames.Welcome(member.rank, members.size(), hostRank, plan.jobId(), peers)));
    }
  }

  /** Where a member reaches a peer: a peer that came by loopback lives on this very host. */
  private static InetSocketAddress addressFor(Member member, Member peer) {
    boolean here = peer.link.remote().getAddress().isLoopbackAddress();
    boolean elsewhere = !member.link.remote().getAddress().isLoopbackAddress();
    InetSocketAddress seen = here && elsewhere ? member.link.local() : peer.link.remote();
    return new InetSocketAddress(seen.getAddress(), peer.join.peerPort());
  }

  private void relay(Member member, ByteBuffer body) {
    int rank = body.getInt();
    long number = body.getLong();
    Ledger.Kind kind = Ledger.Kind.of(body.get());
    boolean inTurn = formed && rank == member.rank && number == member.calls + 1;
    if (!inTurn || kind == null || body.remaining() > Group.MAX_CONTRIBUTION) {
      member.link.lose("it sent a part out of turn");
      return;
    }
    member.calls = number;
    broadcast(Frames.part(rank, number, kind, Frames.rest(body)));
  }

  private void leave(Member member, String report) {
    Departure departure = report.isEmpty() ? Departure.inGoodOrder() : new Departure(false, report);
    member.link.close();
    depart(member, departure);
  }

  /** A member has given this rendezvous up. If this process was stopped, the member is right. */
  private void judged(Member member, String text) {
    member.link.close();
    depart(member, Departure.lost("it gave up the rendezvous: " + text));
    if (reactor.recentStall() > 0 && !ended) {
      ended = true;
      String why =
          "rank %d declared this rendezvous dead, and rightly: %s".formatted(member.rank, text);
      for (Member other : members) {
        boolean host = other.join.id() == plan.hostSeat();
        other.link.closeAfter(Frames.text(host ? Frames.VERDICT : Frames.GOODBYE, why));
      }
      onEnd.run();
    }
  }

  private void depart(Member member, Departure departure) {
    if (member.departed) {
      return;
    }
    member.departed = true;
    if (!formed) {
      seats[member.join.id()] = null;
      return;
    }
    departures[member.join.id()] = departure;
    members.remove(member);
    broadcast(Frames.departed(member.rank, departure));
    if (members.isEmpty() && !ended) {
      ended = true;
      onEnd.run();
    }
  }

  private void broadcast(ByteBuffer frame) {
    for (Member member : members) {
      member.link.send(frame.duplicate());
    }
  }

  /** Shows members that the rendezvous lives, and guests whom they wait for. */
  void tick() {
    if (formed) {
      broadcast(Frames.ping());
      return;
    }
    ByteBuffer pending = Frames.pending(missing());
    for (Member member : seats) {
      if (member != null) {
        member.link.send(pending.duplicate());
      }
    }
  }

  /** Parts from everybody, with a reason. */
  void goodbye(String why) {
    ended = true;
    for (Member member : seats) {
      if (member != null && !member.departed) {
        member.departed = true;
        member.link.closeAfter(Frames.text(Frames.GOODBYE, why));
      }
    }
    members.clear();
  }
}
