package org.ep4j.group;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.ep4j.group.Frames.Join;
import org.jspecify.annotations.Nullable;

/**
 * The rendezvous's knowledge of its group, and what it tells the members. Touched by one reactor
 * thread only.
 *
 * <p>While the group forms, guests take seats. The seats are the ranks, or, for survivors of an
 * older group, the ranks of that group; seats of the dead are excused. A guest that goes away gives
 * its seat back. When every seat is taken or excused, the guests become members with new ranks in
 * the order of their seats, or with the numbers of their seats where the group goes on.
 *
 * <p>Afterwards every part of a collective and every departure goes to all members, in the one
 * order in which this thread saw them. The parts of a rank come before its departure.
 *
 * <p>From then on only restarted processes come in, in the places of ranks that have departed:
 * those that have claimed one when all members that are left have said ADMIT. All members hear of
 * it at the same place of that one order, and number their collectives from 1 again: each of them
 * waits for this answer, so none has sent a part that is still under way.
 */
final class Coordinator {
  /** How long a guest may be silent while the group forms: hosts are busy starting JVMs then. */
  private static final Duration FORMING_LIVENESS = Duration.ofSeconds(10);

  /** The address of a rank that is not there. */
  private static final InetSocketAddress NOWHERE = new InetSocketAddress(0);

  /** A guest, then a member. */
  private final class Member implements Link.Listener {
    final Link link;
    final Join join;
    int rank = -1;
    long calls;
    boolean departed;
    boolean admits;

    Member(Link link, Join join) {
      this.link = link;
      this.join = join;
    }

    @Override
    public void frame(Link link, byte type, ByteBuffer body) {
      switch (type) {
        case Frames.PING -> {}
        case Frames.PART -> relay(this, body);
        case Frames.ADMIT -> {
          admits = true;
          admitIfAllDo();
        }
        case Frames.WITHDRAW -> withdraw(this);
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

  private final GroupPlan plan;
  private final Reactor reactor;
  private final Runnable onEnd;
  private final @Nullable Member[] seats;
  private final BitSet excused;
  private final List<Member> members = new ArrayList<>();
  private final @Nullable Departure[] departures;
  private final Claims claims = new Claims(FORMING_LIVENESS, this::claimed);

  /** By seat: -1 if it is no rank. */
  private final int[] ranks;

  /** By seat. */
  private final int[] incarnations;

  private int hostRank = -1;
  private boolean formed;
  private boolean ended;

  /**
   * @param onEnd run when the group had members and has none any more
   */
  Coordinator(GroupPlan plan, Reactor reactor, Runnable onEnd) {
    this.plan = plan;
    this.reactor = reactor;
    this.onEnd = onEnd;
    this.seats = new Member[plan.seats()];
    this.departures = new Departure[plan.seats()];
    this.excused = (BitSet) plan.excused().clone();
    this.ranks = new int[plan.seats()];
    Arrays.fill(ranks, -1);
    this.incarnations = plan.firstIncarnations();
  }

  /** Takes in a guest that knows the secret; it still has to say which rank it is. */
  void admit(Link link) {
    link.listener(
        new Link.Listener() {
          @Override
          public void frame(Link link, byte type, ByteBuffer body) {
            if (type == Frames.JOIN) {
              seat(link, Frames.join(body));
            } else if (type == Frames.REJOIN) {
              claim(link, Frames.join(body));
            } else {
              link.lose("it did not join");
            }
          }

          @Override
          public void closed(Link link, String why) {}
        });
  }

  private void seat(Link link, Join join) {
    Refusal refusal = ended ? Refusal.ended() : Refusal.of(join, plan);
    if (refusal == null) {
      refusal = noSeat(join.id());
    }
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

  private @Nullable Refusal noSeat(int id) {
    Departure departure = departures[id];
    if (departure != null || excused.get(id)) {
      return Refusal.departed(id, departure);
    }
    Member holder = seats[id];
    return holder == null ? null : Refusal.taken(holder.join, holder.link);
  }

  private void claim(Link link, Join join) {
    Refusal refusal = ended ? Refusal.ended() : Refusal.of(join, plan);
    if (refusal == null) {
      refusal = noClaim(join.id());
    }
    if (refusal != null) {
      link.closeAfter(Frames.refused(refusal.reason(), refusal.text()));
      return;
    }
    claims.add(link, join);
    admitIfAllDo();
  }

  private @Nullable Refusal noClaim(int id) {
    Member holder = seats[id];
    if (!formed) {
      return plan.keepsRanks() ? Refusal.moving() : Refusal.notFormed();
    }
    if (holder != null && !holder.departed) {
      return Refusal.alive(holder.join, holder.link);
    }
    if (ranks[id] < 0) {
      return Refusal.neverThere(id);
    }
    Claims.Claim claim = claims.of(id);
    return claim == null ? null : Refusal.claimed(claim.join, claim.link);
  }

  private void claimed(int seat, boolean waits) {
    broadcast(Frames.claimed(ranks[seat], waits));
    claims.tell(Frames.pending(notAdmitting()));
  }

  private int[] notAdmitting() {
    return members.stream().filter(m -> !m.admits).mapToInt(m -> m.rank).toArray();
  }

  private void withdraw(Member member) {
    if (member.admits) {
      member.admits = false;
      int[] others = Arrays.stream(notAdmitting()).filter(r -> r != member.rank).toArray();
      member.link.send(Frames.withdrawn(claims.count(), others));
    }
  }

  /** Takes in those that wait, once all members say so. */
  private void admitIfAllDo() {
    if (claims.count() == 0 || members.isEmpty() || notAdmitting().length > 0) {
      return;
    }
    List<Member> newcomers = new ArrayList<>();
    for (Claims.Claim claim : claims.take()) {
      int seat = claim.join.id();
      Member member = new Member(claim.link, claim.join);
      member.rank = ranks[seat];
      incarnations[seat]++;
      seats[seat] = member;
      departures[seat] = null;
      excused.clear(seat);
      newcomers.add(member);
    }
    for (Member member : members) {
      member.admits = false;
      member.calls = 0;
      member.link.send(
          Frames.admitted(newcomers.stream().map(peer -> peer(member, peer)).toList()));
    }
    members.addAll(newcomers);
    for (Member member : newcomers) {
      member.link.listener(member);
      member.link.watch(plan.liveness());
      member.link.send(welcome(member));
    }
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
    for (int seat = 0; seat < seats.length; seat++) {
      Member member = seats[seat];
      if (member != null) {
        member.rank = plan.keepsRanks() ? seat : members.size();
        ranks[seat] = member.rank;
        members.add(member);
        member.link.watch(plan.liveness());
      } else if (plan.keepsRanks()) {
        ranks[seat] = seat;
      }
    }
    hostRank = plan.hostSeat() < 0 ? -1 : ranks[plan.hostSeat()];
    for (Member member : List.copyOf(members)) {
      member.link.send(welcome(member));
    }
  }

  private ByteBuffer welcome(Member member) {
    List<Frames.Peer> peers = new ArrayList<>();
    for (int seat = 0; seat < seats.length; seat++) {
      Member peer = seats[seat];
      if (peer != null) {
        peers.add(peer(member, peer));
      } else if (ranks[seat] >= 0) {
        peers.add(new Frames.Peer(ranks[seat], incarnations[seat], false, NOWHERE));
      }
    }
    return Frames.welcome(
        new Frames.Welcome(member.rank, peers.size(), hostRank, plan.jobId(), peers));
  }

  private Frames.Peer peer(Member member, Member peer) {
    return new Frames.Peer(
        peer.rank, incarnations[peer.join.id()], !peer.departed, addressFor(member, peer));
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
      claims.close(Frames.text(Frames.GOODBYE, "the group has ended"));
      onEnd.run();
    }
    admitIfAllDo();
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
      claims.tell(Frames.pending(notAdmitting()));
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
    claims.close(Frames.text(Frames.GOODBYE, why));
  }
}
