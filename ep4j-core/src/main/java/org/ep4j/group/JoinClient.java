package org.ep4j.group;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.BufferUnderflowException;
import java.time.Duration;
import org.ep4j.group.Frames.Frame;
import org.ep4j.group.Frames.Join;
import org.ep4j.group.Frames.Welcome;
import org.ep4j.group.JoinRefusedException.Reason;
import org.jspecify.annotations.Nullable;

/** The way of one rank into a group: knock until somebody opens, join, wait for the others. */
final class JoinClient {
  private static final long FIRST_PAUSE_MILLIS = 20;
  private static final long LONGEST_PAUSE_MILLIS = 250;

  /** A rank that is in: its connection, the port it listens at, and what it was told. */
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
   * @param here where the rendezvous is, if this process hosts it
   * @param reactor will serve the peer port; not started yet
   * @param awaitsListener whether to try again where nobody answers: the rendezvous may be still to
   *     come
   * @param again whether to take the place of a process that has departed from the running group
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

  /** The same for a rank that has its peer port and changes the rendezvous. */
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
   * @throws IOException if nobody answers, unless patient
   * @throws JoinRefusedException if trying again does not help
   * @throws GroupTimeoutException if the deadline passed
   */
  Admission join() throws IOException {
    long pause = FIRST_PAUSE_MILLIS;
    while (true) {
      try {
        return tryOnce();
      } catch (IOException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw new GroupException(interrupted(), e);
        }
        if (deadline.expired()) {
          throw timeout(e);
        }
        if (!awaitsListener) {
          throw e;
        }
      } catch (JoinRefusedException e) {
        if (again && (isMoving(e) || (isAlive(e) && mayDie()))) {
          pause(LONGEST_PAUSE_MILLIS);
          continue;
        }
        throw new JoinRefusedException(
            e.reason(),
            "rank %d cannot %s: %s"
                .formatted(config.rank(), again ? "rejoin" : "join", e.getMessage()),
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

  /** Whether the death of the process in whose place to go may not have been noticed yet. */
  private boolean mayDie() {
    Deadline noticed = oldOneKnownToBeDead;
    if (noticed == null) {
      noticed = deadline.orAfter(config.livenessTimeout().multipliedBy(2));
      oldOneKnownToBeDead = noticed;
    }
    return !noticed.expired();
  }

  private Admission tryOnce() throws IOException {
    // Resolved each time: names of pods appear when the pods do.
    InetSocketAddress address =
        here != null ? here : new InetSocketAddress(config.host(), config.port());
    missing = new int[0];
    BlockingFrameChannel channel =
        BlockingFrameChannel.open(address, config.secret(), Frames.Purpose.RENDEZVOUS, deadline);
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
      // Reached by loopback under a name that others know as well: they come from elsewhere.
      boolean everywhere = local.isLoopbackAddress() && !HostNames.isLoopback(config.host());
      InetAddress address = everywhere ? new InetSocketAddress(0).getAddress() : local;
      peerPort = new PeerPort(reactor, address, config.secret());
    }
    return peerPort;
  }

  private Welcome awaitWelcome(BlockingFrameChannel channel) throws IOException {
    while (true) {
      Frame frame = channel.receive(Frames.MAX, deadline);
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
      throw channel.wrongProtocol("a welcome that is too short", e);
    }
    throw channel.wrongProtocol("a welcome that contradicts itself", null);
  }

  private GroupTimeoutException timeout(IOException last) {
    String what;
    if (missing.length > 0) {
      what =
          "the rendezvous answers, but "
              + MissingRanks.text(missing)
              + (again ? ": they have not called readmit()" : "");
    } else if (last instanceof SocketTimeoutException || last instanceof EOFException) {
      what = last.getMessage() + "; is it an ep4j rendezvous, and not stopped?";
    } else if (last instanceof SocketException) {
      what =
          "nobody answers there (%s); was the rank or launcher that hosts it started?"
              .formatted(last.getMessage());
      if (again) {
        what += " If it is gone, the others make a new one when they call readmit()";
      }
    } else {
      what = last.toString();
    }
    return new GroupTimeoutException(
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
