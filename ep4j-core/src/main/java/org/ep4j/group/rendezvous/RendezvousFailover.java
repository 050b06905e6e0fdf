package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.PeerLostException;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Departure;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Frame;
import org.ep4j.group.protocol.Frames.Question;
import org.ep4j.group.protocol.GroupState;
import org.ep4j.group.protocol.MissingRanks;
import org.ep4j.group.protocol.RetryDelay;
import org.jspecify.annotations.Nullable;

/**
 * How the remaining ranks form a new group, whether the old rendezvous lives or not; or how they
 * find a new rendezvous for the same group, in which all ranks keep their numbers.
 *
 * <p>The lowest live rank hosts a new rendezvous, with an index for every rank of the old group,
 * and announces its port at its peer port. It also probes the peer ports of all others and exempts
 * those that do not answer. Every other rank asks the lowest rank that it believes to be alive. If
 * that rank does not answer, it is lost, and the next one is asked. All of this repeats until a
 * group has formed or the deadline passes, so ranks may die at any time in between.
 */
final class RendezvousFailover {
  private static final Duration PAUSE = Duration.ofMillis(50);
  private static final Duration PROBE_INTERVAL = Duration.ofMillis(250);

  private final Question aim;
  private final String call;
  private final TcpGroup group;
  private final GroupState state;
  private final GroupConfig config;
  private final Deadline deadline;
  private volatile boolean formed;

  /** The leader whose last answer was missing; -1 if it answered, or none was asked. */
  private int suspected = -1;

  /**
   * @param aim {@code SURVIVORS} for a new group, or {@code SAME_GROUP}
   */
  RendezvousFailover(Question aim, TcpGroup group, Deadline deadline) {
    this.aim = aim;
    this.call = aim == Question.SURVIVORS ? "survivors" : "readmit";
    this.group = group;
    this.state = group.state();
    this.config = group.config();
    this.deadline = deadline;
  }

  /**
   * {@link Group#survivors}, or the first step of {@link Group#readmit}.
   *
   * @return the new group, or the old one with its new rendezvous
   */
  Group form() {
    while (true) {
      requireInGroup();
      int leader = leader();
      try {
        Group next = leader == group.rank() ? host() : follow(leader);
        if (next != null) {
          return next;
        }
      } catch (JoinRefusedException e) {
        requireInGroup();
        if (e.reason() == JoinRefusedException.Reason.DECLARED_DEAD) {
          throw outOfGroup(String.valueOf(e.getMessage()));
        }
        if (e.reason() != JoinRefusedException.Reason.CLOSED) {
          throw e;
        }
        // The leader has aborted its attempt; it may call again.
        if (deadline.expired()) {
          throw new GroupTimeoutException(
              code(),
              "%s: not all live ranks called it within %s: %s"
                  .formatted(call, deadline.text(), e.getMessage()),
              new int[0],
              e);
        }
      } catch (GroupTimeoutException e) {
        requireInGroup();
        throw unreachable(leader, e);
      } catch (IOException e) {
        requireInGroup();
        throw new GroupException(ErrorCode.GROUP_FAILED, call + ": " + e, e);
      }
      if (deadline.expired()) {
        throw notCalled(leader);
      }
      RetryDelay.of(PAUSE, call + ": interrupted while the ranks gather");
    }
  }

  /** The lowest live rank, as far as this rank knows; at most this rank. */
  private int leader() {
    int leader = 0;
    while (leader < group.rank() && !state.isAlive(leader)) {
      leader++;
    }
    return leader;
  }

  private ErrorCode code() {
    return aim == Question.SURVIVORS ? ErrorCode.SURVIVORS_TIMEOUT : ErrorCode.READMIT_TIMEOUT;
  }

  /**
   * A rank that is out forms no group, because the others form theirs without it. It may learn that
   * at any time: from the others, or from the length of a stop of this process.
   */
  private void requireInGroup() {
    Departure own = state.departure(group.rank());
    if (own != null) {
      throw outOfGroup(own.report());
    }
  }

  private PeerLostException outOfGroup(String why) {
    return PeerLostException.ofCaller(call, group.rank(), why);
  }

  private GroupTimeoutException unreachable(int leader, GroupTimeoutException e) {
    if (e.missing().length == 0) {
      return leader == group.rank() ? e : silent(leader, e);
    }
    return new GroupTimeoutException(
        code(),
        "%1$s: %2$s after %3$s: call %1$s() on all live ranks"
            .formatted(call, MissingRanks.text(e.missing()), deadline.text()),
        e.missing(),
        e);
  }

  private GroupTimeoutException silent(int leader, GroupTimeoutException e) {
    return new GroupTimeoutException(
        code(),
        ("%1$s: rank %2$d, which hosts the rendezvous, does not answer there after %3$s: find out"
                + " whether its process is stopped, and call %1$s() again on all live ranks")
            .formatted(call, leader, deadline.text()),
        new int[] {leader},
        e);
  }

  private GroupTimeoutException notCalled(int leader) {
    return new GroupTimeoutException(
        code(),
        ("%1$s: rank %2$d, which hosts the rendezvous, has not called it after %3$s: call %1$s() on"
                + " all live ranks")
            .formatted(call, leader, deadline.text()),
        new int[] {leader},
        null);
  }

  /** Joins the group of the leader; null if the leader is lost. */
  private @Nullable Group follow(int leader) throws IOException {
    int port;
    try (BlockingFrameChannel channel = ask(leader, aim)) {
      port = awaitHosting(channel, leader);
      suspected = -1;
    } catch (SocketTimeoutException e) {
      return unanswered(leader, "it did not answer at its peer port");
    } catch (JoinRefusedException e) {
      return leaderLost(leader, String.valueOf(e.getMessage()));
    } catch (IOException e) {
      if (BlockingFrameChannel.failedHere(e)) {
        throw new GroupException(
            ErrorCode.JOIN_FAILED,
            ("%1$s: this process cannot open a connection to rank %2$d (%3$s): raise its limit of"
                    + " open files (ulimit -n), and call %1$s() again")
                .formatted(call, leader, e.getMessage()),
            e);
      }
      return unanswered(leader, "its peer port is closed (" + e.getMessage() + ")");
    }
    if (port == 0) {
      return null;
    }
    try {
      return join(config(group.peer(leader).getAddress(), port), null);
    } catch (IOException e) {
      // The leader died or aborted meanwhile: the next question to its peer port decides.
      return null;
    }
  }

  /**
   * The leader is lost if it does not answer a second time, either. This process may have been
   * stopped while it asked: its time is over then, and the peer has closed the connection.
   */
  private @Nullable Group unanswered(int leader, String why) {
    if (suspected == leader) {
      return leaderLost(leader, why);
    }
    suspected = leader;
    return null;
  }

  private @Nullable Group leaderLost(int leader, String why) {
    if (Thread.currentThread().isInterrupted()) {
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED, call + ": interrupted while asking rank " + leader);
    }
    if (!deadline.expired()) {
      state.depart(leader, Departure.lost(why));
    }
    return null;
  }

  private Group join(GroupConfig next, @Nullable Rendezvous own) throws IOException {
    if (aim == Question.SAME_GROUP) {
      group.moveTo(next, own, deadline);
      return group;
    }
    TcpGroup survivors = GroupJoin.join(next, own, deadline, false);
    Departure out = state.departure(group.rank());
    if (out != null) {
      survivors.fail(out.report());
      throw outOfGroup(out.report());
    }
    return survivors;
  }

  private BlockingFrameChannel ask(int rank, Question question) throws IOException {
    BlockingFrameChannel channel =
        BlockingFrameChannel.open(
            group.peer(rank),
            JobKey.of(config.secret()),
            Frames.Purpose.PEER,
            deadline.orAfter(config.livenessTimeout()));
    boolean done = false;
    try {
      int incarnation = state.incarnation(group.rank());
      channel.send(Frames.ask(group.rank(), incarnation, question, group.jobId()));
      done = true;
      return channel;
    } finally {
      if (!done) {
        channel.close();
      }
    }
  }

  /**
   * The port of the new rendezvous; 0 if this rank or the leader is lost, or the deadline has
   * passed.
   */
  private int awaitHosting(BlockingFrameChannel channel, int leader) throws IOException {
    while (state.isAlive(leader) && !deadline.expired()) {
      Frame frame;
      try {
        frame =
            channel.receive(Frames.MAX_BEFORE_PROOF, deadline.orAfter(config.livenessTimeout()));
      } catch (SocketTimeoutException e) {
        channel.send(
            Frames.text(Frames.VERDICT, "rank " + group.rank() + " received no answer from it"));
        throw e;
      }
      switch (frame.type()) {
        case Frames.PING -> {}
        case Frames.HOSTING -> {
          return frame.body().getInt();
        }
        case Frames.VERDICT -> {
          judged(frame);
          return 0;
        }
        default -> throw channel.wrongProtocol("a frame of type " + frame.type(), null);
      }
    }
    return 0;
  }

  /** A rank says that this one is out. */
  private void judged(Frame verdict) {
    state.depart(group.rank(), new Departure(false, Frames.text(verdict.body())));
  }

  private Group host() throws IOException {
    InetAddress address = group.listensAt().getAddress();
    BitSet gone = new BitSet();
    for (int r = 0; r < group.size(); r++) {
      gone.set(r, r != group.rank() && !state.isAlive(r));
    }
    Rendezvous rendezvous =
        aim == Question.SURVIVORS
            ? Rendezvous.forSurvivors(config(address, 0), gone)
            : Rendezvous.forSameRanks(
                config.toBuilder().rank(group.rank()).size(group.size()).build(),
                address,
                group.jobId(),
                gone,
                incarnations());
    List<Thread> probes = new ArrayList<>();
    try {
      for (int r = gone.nextClearBit(0); r < group.size(); r = gone.nextClearBit(r + 1)) {
        if (r != group.rank()) {
          int peer = r;
          probes.add(Thread.startVirtualThread(() -> probe(peer, rendezvous)));
        }
      }
      int port = rendezvous.address().getPort();
      group.hosting(aim, port);
      return join(config(address, port), rendezvous);
    } finally {
      formed = true;
      probes.forEach(Thread::interrupt);
      group.hosting(aim, 0);
    }
  }

  private int[] incarnations() {
    int[] incarnations = new int[group.size()];
    Arrays.setAll(incarnations, state::incarnation);
    return incarnations;
  }

  /** Exempts a rank from the new group when it is lost; ends the rendezvous if this rank is. */
  private void probe(int rank, Rendezvous rendezvous) {
    boolean again = false;
    while (!formed) {
      boolean departed = !state.isAlive(rank);
      String why = departed ? "" : whyLost(rank);
      Departure own = state.departure(group.rank());
      if (own != null) {
        // The others do not come: the join here ends, and the ranks that have joined ask another.
        rendezvous.close(
            "rank %d, which hosts it, is out of the group: %s"
                .formatted(group.rank(), own.report()));
        return;
      }
      // Twice, for the reason of unanswered().
      if (why != null && (departed || again) && !formed) {
        state.depart(rank, Departure.lost(why));
        rendezvous.exempt(rank);
        return;
      }
      again = why != null;
      try {
        Thread.sleep(PROBE_INTERVAL);
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  /** Null if the rank is alive, also when it is this rank that counts as lost there; or unknown. */
  private @Nullable String whyLost(int rank) {
    try (BlockingFrameChannel channel = ask(rank, Question.PROBE)) {
      Deadline wait = deadline.orAfter(config.livenessTimeout());
      Frame frame = channel.receive(Frames.MAX_BEFORE_PROOF, wait);
      return switch (frame.type()) {
        case Frames.PING -> null;
        case Frames.VERDICT -> {
          judged(frame);
          yield null;
        }
        default -> "it answered a probe with a frame of type " + frame.type();
      };
    } catch (SocketTimeoutException e) {
      return deadline.expired() ? null : "it did not answer at its peer port";
    } catch (JoinRefusedException e) {
      return e.getMessage();
    } catch (IOException e) {
      // The next probe may have what this process lacked for this one.
      return BlockingFrameChannel.failedHere(e)
          ? null
          : "its peer port is closed (" + e.getMessage() + ")";
    }
  }

  private GroupConfig config(InetAddress address, int port) {
    return config.toBuilder()
        .rank(group.rank())
        .size(group.size())
        .rendezvous(address.getHostAddress(), port)
        .hostsRendezvous(false)
        .job(aim == Question.SURVIVORS ? group.jobId() : config.job())
        .joinTimeout(Duration.ofNanos(Math.max(1, deadline.remainingNanos())))
        .build();
  }
}
