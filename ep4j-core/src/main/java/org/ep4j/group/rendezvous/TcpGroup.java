package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.JobKey;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.FrameConnection;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Peer;
import org.ep4j.group.protocol.Frames.Question;
import org.ep4j.group.protocol.Frames.Welcome;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.Reactor;
import org.ep4j.group.rendezvous.Readmission.Answer;
import org.jspecify.annotations.Nullable;

/**
 * A rank that is a process, with a connection to the rendezvous.
 *
 * <p>One reactor thread owns the connection and writes its input to the group state, on which
 * callers of collectives wait. It also sends heartbeats and monitors those of the rendezvous. When
 * the rendezvous is lost, a connection to another one can replace the connection ({@link #moveTo}).
 */
public final class TcpGroup extends MemberGroup implements FrameConnection.Listener {
  private static final Duration LONGEST_LEAVE = Duration.ofMillis(1500);

  private final GroupConfig config;
  private final GroupState state;
  private final Reactor reactor;
  private final PeerPort peerPort;

  /** Addresses of the peer ports of all ranks. */
  private final AtomicReferenceArray<InetSocketAddress> peers;

  private volatile @Nullable Rendezvous own;

  // Written and read by the reactor thread only.
  private FrameConnection connection;
  private int hostRank;
  private boolean closing;
  private boolean rendezvousLost;
  private CompletableFuture<Answer> asked = CompletableFuture.completedFuture(Answer.LOST);

  /**
   * @param reactor not started yet; {@link #start} starts it
   * @param own the rendezvous if this process hosts it; owned by the group
   */
  TcpGroup(
      GroupConfig config, JoinClient.Admission admission, Reactor reactor, @Nullable Rendezvous own)
      throws IOException {
    this(config, admission, reactor, own, state(admission.accept()));
  }

  private TcpGroup(
      GroupConfig config,
      JoinClient.Admission admission,
      Reactor reactor,
      @Nullable Rendezvous own,
      GroupState state)
      throws IOException {
    super(admission.accept().rank(), admission.accept().size(), admission.accept().jobId(), state);
    this.config = config;
    this.state = state;
    this.reactor = reactor;
    this.peerPort = admission.peerPort();
    this.own = own;
    this.peers = new AtomicReferenceArray<>(size());
    peerPort.belongsTo(rank(), jobId(), state);
    connection = connect(admission);
  }

  /** Starts to serve the connection. */
  void start() {
    reactor.start(this::tick, this::rendezvousLost);
  }

  private static GroupState state(Welcome welcome) {
    BitSet readers = new BitSet();
    readers.set(welcome.rank());
    GroupState state = new GroupState(welcome.size(), readers, () -> {});
    state.renew(welcome.peers());
    return state;
  }

  /** Makes the connection served by the reactor. */
  private FrameConnection connect(JoinClient.Admission admission) throws IOException {
    Welcome welcome = admission.accept();
    hostRank = welcome.hostRank();
    for (Peer peer : welcome.peers()) {
      peers.set(peer.rank(), peer.address());
    }
    FrameConnection fresh;
    try (BlockingFrameChannel channel = admission.channel()) {
      fresh = new FrameConnection(reactor, channel.channel(), this);
      channel.release();
    }
    fresh.trust();
    fresh.livenessTimeout(config.livenessTimeout());
    return fresh;
  }

  /**
   * Continues with another rendezvous of the same group; the calling thread is inside {@link
   * #readmit}.
   *
   * @param next the rendezvous if this process hosts it; as for {@link GroupJoin#join}
   */
  public void moveTo(GroupConfig config, @Nullable Rendezvous next, Deadline deadline)
      throws IOException {
    String failure = "rank " + rank() + ", which hosts it, could not join";
    boolean done = false;
    JoinClient.Admission admission = null;
    AtomicBoolean taken = new AtomicBoolean();
    try {
      InetSocketAddress here = next == null ? null : next.reachedFromHere();
      JoinClient.Admission fresh = new JoinClient(config, here, deadline, reactor, peerPort).join();
      admission = fresh;
      CompletableFuture<Boolean> moved = new CompletableFuture<>();
      reactor.post(
          () -> {
            if (taken.compareAndSet(false, true)) {
              move(fresh, moved);
            }
          });
      if (!moved.get(LONGEST_LEAVE.toNanos(), TimeUnit.NANOSECONDS)) {
        throw new IOException("the connection broke at once");
      }
      Rendezvous before = own;
      own = next;
      if (before != null) {
        before.close("another rendezvous has replaced it");
      }
      done = true;
    } catch (GroupException e) {
      failure = String.valueOf(e.getMessage());
      throw e;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new GroupException(ErrorCode.GROUP_INTERRUPTED, "readmit: interrupted", e);
    } catch (ExecutionException | TimeoutException e) {
      throw new GroupException(
          ErrorCode.GROUP_FAILED, "readmit: the thread that serves the group does not answer", e);
    } finally {
      // The first taker owns the connection: a reactor that has ended never takes it.
      if (!done && admission != null && taken.compareAndSet(false, true)) {
        admission.channel().close();
      }
      if (!done && next != null) {
        next.close(failure);
      }
    }
  }

  private void move(JoinClient.Admission admission, CompletableFuture<Boolean> moved) {
    // A rank that is out stays out: the welcome would declare it alive again.
    if (closing || state.departure(rank()) != null) {
      admission.channel().close();
      moved.complete(false);
      return;
    }
    try {
      connection.close();
      connection = connect(admission);
      rendezvousLost = false;
      state.renew(admission.accept().peers());
      moved.complete(true);
    } catch (IOException e) {
      moved.complete(false);
    }
  }

  GroupConfig config() {
    return config;
  }

  GroupState state() {
    return state;
  }

  /** Address of the peer port of a rank. */
  InetSocketAddress peer(int rank) {
    return peers.get(rank);
  }

  /**
   * Address to which the peer port of this rank is bound: all addresses of the host, or one of
   * them.
   */
  InetSocketAddress listensAt() {
    return peerPort.address();
  }

  /** Announces at the peer port what this rank hosts; 0 revokes the announcement. */
  void hosting(Question question, int port) {
    reactor.post(() -> peerPort.hosting(question, port));
  }

  /** Notifies the rendezvous that this rank waits for restarted processes. Returns the answer. */
  CompletableFuture<Answer> admit() {
    CompletableFuture<Answer> answer = new CompletableFuture<>();
    reactor.post(
        () -> {
          asked = answer;
          // Down also without a loss of the rendezvous: by its verdict, which no answer follows.
          if (closing || state.isDown()) {
            answer.complete(Answer.LOST);
          } else {
            connection.send(Frames.empty(Frames.ADMIT));
          }
        });
    return answer;
  }

  /** Revokes {@link #admit}; the rendezvous answers in either case. */
  void withdraw() {
    reactor.post(() -> connection.send(Frames.empty(Frames.WITHDRAW)));
  }

  @Override
  int[] takeInRestarted(Deadline deadline) {
    return new Readmission(this, deadline).run();
  }

  @Override
  public boolean inProcess() {
    return size() == 1;
  }

  @Override
  public JobKey key() {
    return JobKey.of(config.secret()).ofJob(jobId());
  }

  @Override
  public InetAddress address(int rank) {
    return peer(rank).getAddress();
  }

  @Override
  void contribute(long number, GroupState.Kind kind, byte[] part) {
    ByteBuffer frame = Frames.part(rank(), number, kind, part);
    reactor.post(() -> connection.send(frame));
  }

  @Override
  void send(int to, long topic, byte[] notice) {
    ByteBuffer frame = Frames.notice(rank(), to, topic, notice);
    reactor.post(() -> connection.send(frame));
  }

  @Override
  Group formSurvivors(Deadline deadline) {
    return new RendezvousFailover(Question.SURVIVORS, this, deadline).form();
  }

  @Override
  public void frame(FrameConnection connection, byte type, ByteBuffer body) {
    switch (type) {
      case Frames.PING -> {}
      case Frames.PART -> {
        int rank = body.getInt();
        long number = body.getLong();
        GroupState.Kind kind = Objects.requireNonNull(GroupState.Kind.of(body.get()), "kind");
        state.contribute(rank, number, kind, Frames.rest(body));
      }
      case Frames.NOTICE -> {
        int from = body.getInt();
        int to = body.getInt();
        long topic = body.getLong();
        state.noticed(from, to, topic, Frames.rest(body));
      }
      case Frames.OBSERVE ->
          connection.send(Frames.observation(body.getInt(), rank(), observations()));
      case Frames.DEPARTED -> {
        int rank = body.getInt();
        boolean left = body.get() != 0;
        state.depart(rank, new Departure(left, Frames.text(body)));
      }
      case Frames.REJOINING -> {
        int rank = body.getInt();
        state.rejoin(rank, body.get() != 0);
      }
      case Frames.ADMITTED -> readmitted(connection, body);
      case Frames.WITHDRAWN -> {
        int rejoins = body.getInt();
        List<Integer> missing = Arrays.stream(Frames.pending(body)).boxed().toList();
        asked.complete(Answer.withdrawn(rejoins, missing));
      }
      case Frames.VERDICT -> {
        connection.close();
        judged("declared dead by the rendezvous: " + Frames.text(body));
      }
      case Frames.GOODBYE -> {
        connection.close();
        rendezvousLost("it was closed: " + Frames.text(body));
      }
      default -> connection.lose("it sent a frame of type " + type);
    }
  }

  private void readmitted(FrameConnection connection, ByteBuffer body) {
    try {
      List<Peer> newcomers = Frames.peers(body);
      for (Peer peer : newcomers) {
        peers.set(peer.rank(), peer.address());
      }
      state.readmit(newcomers);
      asked.complete(Answer.admitted(newcomers));
    } catch (UnknownHostException e) {
      connection.lose("it sent an invalid address");
    }
  }

  @Override
  public void closed(FrameConnection connection, String why) {
    rendezvousLost(why);
  }

  @Override
  public void silent(FrameConnection connection, Duration silence) {
    String why = "it was silent for " + Deadline.text(silence);
    connection.closeAfter(Frames.text(Frames.VERDICT, why));
    rendezvousLost(why);
  }

  private void rendezvousLost(String why) {
    if (closing || rendezvousLost) {
      return;
    }
    rendezvousLost = true;
    judgeStall();
    int host = hostRank;
    Departure departure = host < 0 ? null : state.departure(host);
    if (departure != null) {
      state.down(host, "the rendezvous ended with rank %d: %s".formatted(host, departure.report()));
    } else {
      if (host >= 0 && host != rank()) {
        state.depart(host, Departure.lost("it hosted the rendezvous, " + why));
      }
      state.down(
          host, "the rendezvous is lost (%s): call survivors() for a new group".formatted(why));
    }
    asked.complete(Answer.LOST);
  }

  /**
   * A rank that was stopped, and lost the rendezvous without a verdict, knows that it counts as
   * dead.
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
    state.depart(rank(), departure);
    state.down(rank(), "this rank is out of the group: " + departure.report());
    asked.complete(Answer.LOST);
  }

  private void tick() {
    connection.send(Frames.ping());
    peerPort.tick();
    judgeStall();
  }

  @Override
  void depart(Departure departure) {
    state.depart(rank(), departure);
    state.down(rank(), "the group of rank " + rank() + " was closed");
    reactor.post(
        () -> {
          closing = true;
          asked.complete(Answer.LOST);
          connection.closeAfter(Frames.leave(departure));
          peerPort.close();
        });
    reactor.close(LONGEST_LEAVE);
    Rendezvous hosted = own;
    if (hosted != null) {
      hosted.closeAcceptor();
      if (departure.left()) {
        // Most programs end on all ranks at once, and the other ranks still need the process of the
        // host.
        hosted.awaitEnd(config.livenessTimeout());
      }
    }
  }
}
