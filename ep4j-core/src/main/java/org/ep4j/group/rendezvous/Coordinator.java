package org.ep4j.group.rendezvous;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.ep4j.group.Group;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Join;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.Reactor;
import org.jspecify.annotations.Nullable;

/**
 * State of the rendezvous and the messages that it sends to members. One reactor thread accesses
 * it.
 *
 * <p>While the group forms, clients occupy member indices. The indices are ranks or, for survivors
 * of an older group, the ranks of that group; indices of dead ranks are exempt. A client that
 * disconnects frees its index. When every index is occupied or exempt, the clients become members.
 * Their new ranks follow the order of their indices; if the group continues, the indices are the
 * ranks.
 *
 * <p>Afterwards the coordinator sends every part of a collective and every departure to all
 * members, in the one order in which this thread received them. The parts of a rank precede its
 * departure. What arrived in one round of the reactor leaves together: a write for each part and
 * member would be quadratic in the members.
 *
 * <p>From then on only restarted processes are admitted, for ranks that have departed: all waiting
 * processes are admitted when all live members have sent ADMIT. All members receive this at the
 * same position of the order and number their collectives from 1 again. Each member waits for the
 * answer, so no member has a part in flight.
 */
final class Coordinator {
  /** Bytes for all members that leave together: longer frames gain nothing from it. */
  private static final int MAX_TOGETHER = 64 << 10;

  /** The address of a rank that has no process. */
  private static final InetSocketAddress NOWHERE = new InetSocketAddress(0);

  /** A client, later a member. */
  private final class Member implements FrameConnection.Listener {
    final FrameConnection connection;
    final Join join;
    int rank = -1;
    long calls;
    boolean departed;
    boolean admits;

    Member(FrameConnection connection, Join join) {
      this.connection = connection;
      this.join = join;
    }

    @Override
    public void frame(FrameConnection connection, byte type, ByteBuffer body) {
      switch (type) {
        case Frames.PING -> {}
        case Frames.PART -> relay(this, body);
        case Frames.NOTICE -> pass(this, body);
        case Frames.OBSERVATION -> observers.pass(body);
        case Frames.ADMIT -> {
          admits = true;
          admitIfAllDo();
        }
        case Frames.WITHDRAW -> withdraw(this);
        case Frames.LEAVE -> leave(this, Frames.text(body));
        case Frames.VERDICT -> judged(this, Frames.text(body));
        default ->
            connection.lose("it sent a frame of type " + type + ", which members do not send");
      }
    }

    @Override
    public void closed(FrameConnection connection, String why) {
      depart(this, Departure.lost(why + " (its process or the network failed)"));
    }

    @Override
    public void silent(FrameConnection connection, Duration silence) {
      String why = "it was silent for " + Deadline.text(silence);
      connection.closeAfter(Frames.text(Frames.VERDICT, why));
      depart(this, Departure.lost(why));
    }
  }

  private final GroupPlan plan;
  private final Reactor reactor;
  private final Runnable onEnd;
  private final @Nullable Member[] memberByIndex;
  private final BitSet exempt;
  private final List<Member> members = new ArrayList<>();
  private final @Nullable Departure[] departures;
  private final RejoinRequests rejoins;
  private final Observers observers = new Observers(this::ask);

  /** Frames of this round for all members, in their order; {@link #deliver} sends them. */
  private final List<ByteBuffer> relayed = new ArrayList<>();

  private int relayedBytes;

  /** By index; -1 if the index has no rank. */
  private final int[] ranks;

  /** By index. */
  private final int[] incarnations;

  private int hostRank = -1;
  private boolean formed;
  private boolean ended;

  /**
   * @param onEnd called when the group had members and has none left
   */
  Coordinator(GroupPlan plan, Reactor reactor, Runnable onEnd) {
    this.plan = plan;
    this.reactor = reactor;
    this.onEnd = onEnd;
    this.memberByIndex = new Member[plan.members()];
    this.departures = new Departure[plan.members()];
    this.rejoins = new RejoinRequests(GroupPlan.whileForming(plan.liveness()), this::rejoining);
    this.exempt = (BitSet) plan.exempt().clone();
    this.ranks = new int[plan.members()];
    Arrays.fill(ranks, -1);
    this.incarnations = plan.firstIncarnations();
  }

  /** Registers an authenticated connection; the client then sends its rank. */
  void admit(FrameConnection connection) {
    connection.listener(
        new FrameConnection.Listener() {
          @Override
          public void frame(FrameConnection connection, byte type, ByteBuffer body) {
            if (type == Frames.JOIN) {
              index(connection, Frames.join(body));
            } else if (type == Frames.REJOIN) {
              rejoin(connection, Frames.join(body));
            } else if (type == Frames.OBSERVE) {
              observe(connection);
            } else {
              connection.lose("it did not send JOIN");
            }
          }

          @Override
          public void closed(FrameConnection connection, String why) {}
        });
  }

  private void observe(FrameConnection connection) {
    if (ended || !formed) {
      JoinRefusal refusal = ended ? JoinRefusal.ended() : JoinRefusal.notToObserve();
      connection.closeAfter(Frames.refused(refusal.reason(), refusal.text()));
      return;
    }
    observers.add(connection);
  }

  /** An observer asks: the members answer by themselves. */
  private void ask(int observer) {
    long alive = members.stream().filter(member -> !member.departed).count();
    observers.asked(observer, Frames.observed(departures.length, (int) alive, plan.jobId()));
    broadcast(Frames.observe(observer));
  }

  private void index(FrameConnection connection, Join join) {
    JoinRefusal refusal = ended ? JoinRefusal.ended() : JoinRefusal.of(join, plan);
    if (refusal == null) {
      refusal = checkIndex(join.id());
    }
    if (refusal != null) {
      connection.closeAfter(Frames.refused(refusal.reason(), refusal.text()));
      return;
    }
    Member member = new Member(connection, join);
    memberByIndex[join.id()] = member;
    connection.listener(member);
    connection.trust();
    connection.livenessTimeout(GroupPlan.whileForming(plan.liveness()));
    connection.send(Frames.pending(missing()));
    formIfComplete();
  }

  private @Nullable JoinRefusal checkIndex(int id) {
    Departure departure = departures[id];
    if (departure != null || exempt.get(id)) {
      return JoinRefusal.departed(id, departure);
    }
    Member holder = memberByIndex[id];
    return holder == null ? null : JoinRefusal.taken(holder.join, holder.connection);
  }

  private void rejoin(FrameConnection connection, Join join) {
    JoinRefusal refusal = ended ? JoinRefusal.ended() : JoinRefusal.of(join, plan);
    if (refusal == null) {
      refusal = checkRejoin(join.id());
    }
    if (refusal != null) {
      connection.closeAfter(Frames.refused(refusal.reason(), refusal.text()));
      return;
    }
    rejoins.add(connection, join);
    admitIfAllDo();
  }

  private @Nullable JoinRefusal checkRejoin(int id) {
    Member holder = memberByIndex[id];
    if (!formed) {
      return plan.keepsRanks() ? JoinRefusal.moving() : JoinRefusal.notFormed();
    }
    if (holder != null && !holder.departed) {
      return JoinRefusal.alive(holder.join, holder.connection);
    }
    if (ranks[id] < 0) {
      return JoinRefusal.neverThere(id);
    }
    RejoinRequests.RejoinRequest rejoin = rejoins.of(id);
    return rejoin == null ? null : JoinRefusal.rejoining(rejoin.join, rejoin.connection);
  }

  private void rejoining(int index, boolean waits) {
    broadcast(Frames.rejoining(ranks[index], waits));
    rejoins.broadcast(Frames.pending(notAdmitting()));
  }

  private int[] notAdmitting() {
    return members.stream().filter(m -> !m.admits).mapToInt(m -> m.rank).toArray();
  }

  private void withdraw(Member member) {
    if (member.admits) {
      member.admits = false;
      int[] others = Arrays.stream(notAdmitting()).filter(r -> r != member.rank).toArray();
      deliver();
      member.connection.send(Frames.withdrawn(rejoins.count(), others));
    }
  }

  /** Admits the waiting processes when all members have sent ADMIT. */
  private void admitIfAllDo() {
    if (rejoins.count() == 0 || members.isEmpty() || notAdmitting().length > 0) {
      return;
    }
    deliver();
    List<Member> newcomers = new ArrayList<>();
    for (RejoinRequests.RejoinRequest rejoin : rejoins.take()) {
      int index = rejoin.join.id();
      Member member = new Member(rejoin.connection, rejoin.join);
      member.rank = ranks[index];
      incarnations[index]++;
      memberByIndex[index] = member;
      departures[index] = null;
      exempt.clear(index);
      newcomers.add(member);
    }
    for (Member member : members) {
      member.admits = false;
      member.calls = 0;
      member.connection.send(
          Frames.admitted(newcomers.stream().map(peer -> peer(member, peer)).toList()));
    }
    members.addAll(newcomers);
    for (Member member : newcomers) {
      member.connection.listener(member);
      member.connection.livenessTimeout(plan.liveness());
      member.connection.send(welcome(member));
    }
  }

  /** Exempts an index of the old group whose rank is known to be dead. */
  void exempt(int id) {
    if (!formed && !exempt.get(id)) {
      exempt.set(id);
      Member member = memberByIndex[id];
      memberByIndex[id] = null;
      if (member != null) {
        member.departed = true;
        member.connection.closeAfter(
            Frames.text(Frames.VERDICT, "the other survivors have declared this rank dead"));
      }
      formIfComplete();
    }
  }

  /** The indices that are neither occupied nor exempt; none after the group has formed. */
  int[] missing() {
    BitSet missing = new BitSet();
    for (int id = 0; id < memberByIndex.length && !formed; id++) {
      missing.set(id, memberByIndex[id] == null && !exempt.get(id));
    }
    return missing.stream().toArray();
  }

  private void formIfComplete() {
    if (missing().length > 0) {
      return;
    }
    formed = true;
    for (int index = 0; index < memberByIndex.length; index++) {
      Member member = memberByIndex[index];
      if (member != null) {
        member.rank = plan.keepsRanks() ? index : members.size();
        ranks[index] = member.rank;
        members.add(member);
        member.connection.livenessTimeout(plan.liveness());
      } else if (plan.keepsRanks()) {
        ranks[index] = index;
      }
    }
    hostRank = plan.hostIndex() < 0 ? -1 : ranks[plan.hostIndex()];
    for (Member member : List.copyOf(members)) {
      member.connection.send(welcome(member));
    }
  }

  private ByteBuffer welcome(Member member) {
    List<Frames.Peer> peers = new ArrayList<>();
    for (int index = 0; index < memberByIndex.length; index++) {
      Member peer = memberByIndex[index];
      if (peer != null) {
        peers.add(peer(member, peer));
      } else if (ranks[index] >= 0) {
        peers.add(new Frames.Peer(ranks[index], incarnations[index], false, NOWHERE));
      }
    }
    return Frames.welcome(
        new Frames.Welcome(member.rank, peers.size(), hostRank, plan.jobId(), peers));
  }

  private Frames.Peer peer(Member member, Member peer) {
    return new Frames.Peer(
        peer.rank, incarnations[peer.join.id()], !peer.departed, addressFor(member, peer));
  }

  /**
   * The address at which {@code member} reaches a peer: a peer that connected by loopback runs on
   * this host.
   */
  private static InetSocketAddress addressFor(Member member, Member peer) {
    boolean here = peer.connection.remote().getAddress().isLoopbackAddress();
    boolean elsewhere = !member.connection.remote().getAddress().isLoopbackAddress();
    InetSocketAddress seen =
        here && elsewhere ? member.connection.local() : peer.connection.remote();
    return new InetSocketAddress(seen.getAddress(), peer.join.peerPort());
  }

  private void relay(Member member, ByteBuffer body) {
    int rank = body.getInt();
    long number = body.getLong();
    GroupState.Kind kind = GroupState.Kind.of(body.get());
    boolean inOrder = formed && rank == member.rank && number == member.calls + 1;
    if (!inOrder || kind == null || body.remaining() > PurposedPart.MAX) {
      member.connection.lose("it sent a part out of order");
      return;
    }
    member.calls = number;
    broadcast(Frames.part(rank, number, kind, Frames.rest(body)));
  }

  /** Passes a notice on to its receiver, if that is still a member. */
  private void pass(Member member, ByteBuffer body) {
    int from = body.getInt();
    int to = body.getInt();
    long topic = body.getLong();
    if (!formed || from != member.rank || body.remaining() > Group.MAX_NOTICE) {
      member.connection.lose("it sent an invalid notice");
      return;
    }
    byte[] notice = Frames.rest(body);
    deliver();
    for (Member other : members) {
      if (other.rank == to) {
        other.connection.send(Frames.notice(from, to, topic, notice));
      }
    }
  }

  private void leave(Member member, String report) {
    Departure departure = report.isEmpty() ? Departure.inGoodOrder() : new Departure(false, report);
    member.connection.close();
    depart(member, departure);
  }

  /**
   * A member has declared this rendezvous dead. The member is right if this process was stopped:
   * the others will make another rendezvous with it, so it has not departed for them.
   */
  private void judged(Member member, String text) {
    member.connection.close();
    if (reactor.recentStall() == 0 || ended) {
      depart(member, Departure.lost("it declared the rendezvous dead: " + text));
      return;
    }
    ended = true;
    member.departed = true;
    members.remove(member);
    deliver();
    String why =
        "rank %d declared this rendezvous dead, and this process was stopped: %s"
            .formatted(member.rank, text);
    for (Member other : members) {
      boolean host = other.join.id() == plan.hostIndex();
      other.connection.closeAfter(Frames.text(host ? Frames.VERDICT : Frames.GOODBYE, why));
    }
    rejoins.disconnect();
    onEnd.run();
  }

  private void depart(Member member, Departure departure) {
    if (member.departed) {
      return;
    }
    member.departed = true;
    if (!formed) {
      memberByIndex[member.join.id()] = null;
      return;
    }
    departures[member.join.id()] = departure;
    members.remove(member);
    broadcast(Frames.departed(member.rank, departure));
    if (members.isEmpty() && !ended) {
      ended = true;
      rejoins.close(Frames.text(Frames.GOODBYE, "the group has ended"));
      onEnd.run();
    }
    admitIfAllDo();
  }

  /** Sends a frame to all members at the end of this round. */
  private void broadcast(ByteBuffer frame) {
    if (relayedBytes + frame.remaining() > MAX_TOGETHER) {
      deliver();
    }
    if (relayed.isEmpty()) {
      reactor.post(this::deliver);
    }
    relayed.add(frame);
    relayedBytes += frame.remaining();
  }

  /** Sends what this round has for all members; called before anything else goes to a member. */
  private void deliver() {
    if (relayed.isEmpty()) {
      return;
    }
    ByteBuffer frames = ByteBuffer.allocate(relayedBytes);
    relayed.forEach(frames::put);
    relayed.clear();
    relayedBytes = 0;
    frames.flip();
    for (Member member : members) {
      member.connection.send(frames.duplicate());
    }
  }

  /** Sends heartbeats to members, and the missing ranks to clients that wait. */
  void tick() {
    if (formed) {
      broadcast(Frames.ping());
      rejoins.broadcast(Frames.pending(notAdmitting()));
      return;
    }
    ByteBuffer pending = Frames.pending(missing());
    for (Member member : memberByIndex) {
      if (member != null) {
        member.connection.send(pending.duplicate());
      }
    }
  }

  /** Disconnects all members, with a reason. */
  void goodbye(String why) {
    ended = true;
    deliver();
    for (Member member : memberByIndex) {
      if (member != null && !member.departed) {
        member.departed = true;
        member.connection.closeAfter(Frames.text(Frames.GOODBYE, why));
      }
    }
    members.clear();
    rejoins.close(Frames.text(Frames.GOODBYE, why));
  }
}
