package org.ep4j.group.rendezvous;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.BufferUnderflowException;
import java.time.Duration;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.JoinRefusedException.Reason;
import org.ep4j.group.protocol.BlockingFrameChannel;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Frames.Frame;
import org.ep4j.group.protocol.Frames.Join;
import org.ep4j.group.protocol.Frames.Welcome;
import org.ep4j.group.protocol.MissingRanks;
import org.ep4j.group.protocol.Reactor;
import org.ep4j.group.protocol.RetryDelay;
import org.jspecify.annotations.Nullable;

/**
 * Joins one rank to a group: connects until the rendezvous answers, sends JOIN, and waits for the
 * other ranks.
 */
final class JoinClient {
  private static final long FIRST_PAUSE_MILLIS = 20;
  private static final long LONGEST_PAUSE_MILLIS = 250;

  /** An attempt that had less time says nothing about a listener that did not answer. */
  private static final Duration TIME_FOR_AN_ANSWER = Duration.ofMillis(250);

  /** How long the rendezvous may take to notice that a connection is closed. */
  private static final Duration CLOSING_CONNECTION = Duration.ofSeconds(1);

  /** An admitted rank: its connection, its peer port, and the welcome. */
  record Admission(BlockingFrameChannel channel, PeerPort peerPort, Welcome accept) {}

  private final GroupConfig config;
  private final @Nullable InetSocketAddress here;
  private final Deadline deadline;
  private final Reactor reactor;
  private final boolean awaitsListener;
  private final boolean again;
  private @Nullable PeerPort peerPort;
  private @Nullable Deadline oldOneKnownToBeDead;
  private int[] missing = new int[0];

  /**
   * @param here address of the rendezvous if this process hosts it
   * @param reactor serves the peer port; not started yet
   * @param awaitsListener whether to retry while no process listens: the rendezvous may start later
   * @param again whether to replace a departed process of a running group
   */
  JoinClient(
      GroupConfig config,
      @Nullable InetSocketAddress here,
      Deadline deadline,
      Reactor reactor,
      boolean awaitsListener,
      boolean again) {
    this.config = config;
    this.here = here;
    this.deadline = deadline;
    this.reactor = reactor;
    this.awaitsListener = awaitsListener;
    this.again = again;
  }

  /** For a rank that has its peer port and changes the rendezvous. */
  JoinClient(
      GroupConfig config,
      @Nullable InetSocketAddress here,
      Deadline deadline,
      Reactor reactor,
      PeerPort peerPort) {
    this(config, here, deadline, reactor, false, false);
    this.peerPort = peerPort;
  }

  /**
   * Joins.
   *
   * @throws IOException if no process answers and {@code awaitsListener} is false
   * @throws JoinRefusedException if a retry does not help
   * @throws GroupTimeoutException if the deadline has passed
   */
  Admission join() throws IOException {
    long pause = FIRST_PAUSE_MILLIS;
    IOException reason = null;
    while (true) {
      int[] missingBefore = missing;
      Deadline enough = Deadline.after(TIME_FOR_AN_ANSWER);
      try {
        return tryOnce();
      } catch (IOException e) {
        if (reason != null && e instanceof SocketTimeoutException && !enough.expired()) {
          missing = missingBefore;
        } else {
          reason = e;
        }
        if (Thread.currentThread().isInterrupted()) {
          throw new GroupException(ErrorCode.GROUP_INTERRUPTED, interrupted(), e);
        }
        if (deadline.expired()) {
          throw timeout(reason);
        }
        if (!awaitsListener) {
          throw e;
        }
      } catch (JoinRefusedException e) {
        if ((again && isMoving(e)) || (isAlive(e) && mayDie())) {
          reason = null;
          pause(LONGEST_PAUSE_MILLIS);
          continue;
        }
        throw new JoinRefusedException(
            e.reason(),
            "rank %d cannot %s: %s".formatted(config.rank(), again ? "rejoin" : "join", e.text()),
            e.getCause());
      }
      pause(Math.min(pause, deadline.remainingMillis()));
      pause = Math.min(2 * pause, LONGEST_PAUSE_MILLIS);
    }
  }

  private boolean isMoving(JoinRefusedException e) {
    return e.reason() == Reason.MOVING && !deadline.expired();
  }

  private static boolean isAlive(JoinRefusedException e) {
    return e.reason() == Reason.DUPLICATE_RANK;
  }

  /**
   * Whether the end of the process that holds this rank may still be unnoticed. A forming group
   * notices a closed connection soon: of an interrupted join, or of a process that ended.
   */
  private boolean mayDie() {
    Deadline noticed = oldOneKnownToBeDead;
    if (noticed == null) {
      noticed =
          deadline.orAfter(again ? config.livenessTimeout().multipliedBy(2) : CLOSING_CONNECTION);
      oldOneKnownToBeDead = noticed;
    }
    return !noticed.expired();
  }

  private Admission tryOnce() throws IOException {
    // Resolved each time: names of pods appear together with the pods.
    InetSocketAddress address =
        here != null ? here : new InetSocketAddress(config.host(), config.port());
    missing = new int[0];
    BlockingFrameChannel channel =
        BlockingFrameChannel.open(
            address, JobKey.of(config.secret()), Frames.Purpose.RENDEZVOUS, deadline);
    boolean done = false;
    try {
      PeerPort port = peerPort(channel.local().getAddress());
      Join join =
          new Join(
              config.rank(),
              config.size(),
              port.address().getPort(),
              ProcessHandle.current().pid(),
              config.job());
      channel.send(again ? Frames.rejoin(join) : Frames.join(join));
      Welcome accept = awaitWelcome(channel);
      done = true;
      return new Admission(channel, port, accept);
    } finally {
      if (!done) {
        channel.close();
      }
    }
  }

  private PeerPort peerPort(InetAddress local) throws IOException {
    if (peerPort == null) {
      // Reached by loopback under a name that other hosts use too: their connections arrive on
      // other interfaces.
      boolean everywhere = local.isLoopbackAddress() && !HostNames.isLoopback(config.host());
      InetAddress address = everywhere ? new InetSocketAddress(0).getAddress() : local;
      peerPort = new PeerPort(reactor, address, config.size(), JobKey.of(config.secret()));
    }
    return peerPort;
  }

  private Welcome awaitWelcome(BlockingFrameChannel channel) throws IOException {
    while (true) {
      Frame frame = next(channel);
      switch (frame.type()) {
        case Frames.PENDING -> {
          missing = Frames.pending(frame.body());
          channel.send(Frames.ping());
        }
        case Frames.GOODBYE ->
            throw refused(
                channel, Reason.CLOSED, "the rendezvous ended: " + Frames.text(frame.body()));
        case Frames.VERDICT ->
            throw refused(channel, Reason.DECLARED_DEAD, Frames.text(frame.body()));
        case Frames.WELCOME -> {
          return accept(channel, frame);
        }
        default -> throw channel.wrongProtocol("a frame of type " + frame.type(), null);
      }
    }
  }

  /**
   * The next frame of the rendezvous, which sends one at each of its heartbeats.
   *
   * @throws SocketTimeoutException also if a rendezvous is silent for too long in whose place
   *     another one may come. A rank that joins a job has but this one, and a second JOIN would
   *     meet the first one there.
   */
  private Frame next(BlockingFrameChannel channel) throws IOException {
    boolean replaceable = here == null && !awaitsListener;
    Deadline stale = Deadline.after(config.livenessTimeout());
    try {
      return channel.receive(
          Frames.MAX,
          replaceable
              ? deadline.orAfter(GroupPlan.whileForming(config.livenessTimeout()))
              : deadline);
    } catch (SocketTimeoutException e) {
      if (stale.expired()) {
        // The ranks that it named may have come since.
        missing = new int[0];
      }
      throw e;
    }
  }

  private static JoinRefusedException refused(
      BlockingFrameChannel channel, Reason reason, String text) {
    return new JoinRefusedException(reason, channel.text() + ": " + text, null);
  }

  private Welcome accept(BlockingFrameChannel channel, Frame frame) throws IOException {
    try {
      Welcome accept = Frames.welcome(frame.body());
      if (accept.size() == accept.peers().size() && accept.rank() < accept.size()) {
        return accept;
      }
    } catch (BufferUnderflowException e) {
      throw channel.wrongProtocol("a WELCOME that is too short", e);
    }
    throw channel.wrongProtocol("an inconsistent WELCOME", null);
  }

  private GroupTimeoutException timeout(IOException last) {
    String what;
    if (missing.length > 0) {
      what =
          "the rendezvous answers, but "
              + MissingRanks.text(missing)
              + (again ? ": call readmit() on them" : "");
    } else if (last instanceof SocketTimeoutException || last instanceof EOFException) {
      what =
          last.getMessage()
              + ": check that it is an ep4j rendezvous, that its process is not stopped, and that"
              + " its log reports no lack of file descriptors";
    } else if (BlockingFrameChannel.failedHere(last)) {
      what =
          "this process cannot open a connection (%s): raise its limit of open files (ulimit -n)"
              .formatted(last.getMessage());
    } else if (last instanceof SocketException) {
      what =
          "no process listens there (%s): start the rank or launcher that hosts the rendezvous"
              .formatted(last.getMessage());
      if (again) {
        what += "; if it has ended, the live ranks make a new one in readmit()";
      }
    } else {
      what = last.toString();
    }
    return new GroupTimeoutException(
        ErrorCode.JOIN_TIMEOUT,
        "rank %d could not %s a world of %d at %s:%d within %s: %s"
            .formatted(
                config.rank(),
                again ? "rejoin" : "join",
                config.size(),
                config.host(),
                config.port(),
                Deadline.text(config.joinTimeout()),
                what),
        missing,
        last);
  }

  private void pause(long millis) {
    RetryDelay.of(Duration.ofMillis(millis), interrupted());
  }

  private String interrupted() {
    return "interrupted while joining as rank " + config.rank();
  }
}
