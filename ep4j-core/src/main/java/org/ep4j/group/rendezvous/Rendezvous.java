package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.BitSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.protocol.Acceptor;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Frames;
import org.ep4j.group.protocol.Reactor;
import org.ep4j.group.protocol.RetryDelay;
import org.jspecify.annotations.Nullable;

/**
 * The meeting point of the ranks of one job: a TCP server with its own thread, in the process of a
 * launcher or of a rank. It serves one group, relays its collectives and monitors its members. Any
 * thread may call its methods.
 */
public final class Rendezvous implements AutoCloseable {
  private static final Duration BIND_TIMEOUT = Duration.ofSeconds(3);
  private static final Duration BIND_PAUSE = Duration.ofMillis(50);
  private static final System.Logger LOG = System.getLogger("org.ep4j.group");
  private static final Duration LAST_WORDS = Duration.ofSeconds(1);

  private final GroupConfig config;
  private final InetSocketAddress address;
  private final String jobId;
  private final boolean endsWithGroup;
  private final Reactor reactor;
  private final Acceptor acceptor;
  private final Coordinator coordinator;
  private final CountDownLatch ended = new CountDownLatch(1);

  /** File by which observers on this host find the rendezvous; null if none was written. */
  private final @Nullable Path jobFile;

  /**
   * Opens a rendezvous for all ranks of a job; the caller closes it after the job. {@code rank} and
   * {@code hostsRendezvous} of the configuration are ignored; port 0 takes any free port.
   *
   * @throws JoinRefusedException if the port is taken
   * @throws InvalidArgumentException if the secret is empty
   */
  public static Rendezvous open(GroupConfig config) {
    return new Rendezvous(config, null, GroupPlan.of(config, -1, JobIds.random()), false);
  }

  /** A rendezvous that a rank hosts; it ends when all members have departed. */
  static Rendezvous hostedByRank(GroupConfig config) {
    return new Rendezvous(config, null, GroupPlan.of(config, config.rank(), JobIds.random()), true);
  }

  /**
   * A rendezvous for the survivors of a group, hosted by one of them.
   *
   * @param config has the host's old rank, the size of the old group, and the id of the old group
   *     as the job
   * @param gone ranks of the old group that are known to be lost
   */
  static Rendezvous forSurvivors(GroupConfig config, BitSet gone) {
    return new Rendezvous(
        config,
        null,
        GroupPlan.of(config, config.rank(), JobIds.successor(config.job())).without(gone),
        true);
  }

  /**
   * Replaces a lost rendezvous for the same group with the same ranks. It listens at the address of
   * the lost one if that address is on this host, so that restarted processes find it.
   *
   * @param config has the host's rank and the address of the lost rendezvous
   * @param elsewhere address of this host, for any port, if the lost rendezvous was on another host
   * @param gone ranks that have departed
   * @param incarnations of all ranks
   */
  static Rendezvous forSameRanks(
      GroupConfig config, InetAddress elsewhere, String jobId, BitSet gone, int[] incarnations) {
    return new Rendezvous(
        config,
        elsewhere,
        GroupPlan.of(config, config.rank(), jobId).without(gone).keepingRanks(incarnations),
        true);
  }

  private Rendezvous(
      GroupConfig config, @Nullable InetAddress elsewhere, GroupPlan plan, boolean endsWithGroup) {
    if (config.secret().isEmpty()) {
      throw new InvalidArgumentException(
          ErrorCode.SECRET_MISSING,
          "secret",
          "''",
          "set for a rendezvous",
          "share a long random text with all ranks, for example in EP4J_SECRET");
    }
    this.config = config;
    this.jobId = plan.jobId();
    this.endsWithGroup = endsWithGroup;
    Duration liveness = config.livenessTimeout();
    reactor = new Reactor("ep4j-rendezvous", config.heartbeatInterval(), liveness);
    coordinator = new Coordinator(plan, reactor, this::onEnd);
    boolean done = false;
    try {
      acceptor = elsewhere == null ? listen() : listen(elsewhere);
      address = acceptor.address();
      jobFile =
          JobFiles.write(
              System.getenv(),
              address.getAddress().equals(elsewhere)
                  ? address.getAddress().getHostAddress()
                  : config.host(),
              config.secret(),
              plan,
              reachedFromHere(address));
      start(jobFile);
      done = true;
    } finally {
      if (!done) {
        reactor.close();
      }
    }
  }

  /** Deletes the file when the thread ends by an error, or does not start. */
  private void start(@Nullable Path file) {
    boolean started = false;
    try {
      reactor.start(
          coordinator::tick,
          why -> {
            ended.countDown();
            JobFiles.delete(file);
          });
      started = true;
    } finally {
      if (!started) {
        JobFiles.delete(file);
      }
    }
  }

  /** The group has ended: closes a rendezvous of a rank. A launcher closes its own. */
  private void onEnd() {
    ended.countDown();
    JobFiles.delete(jobFile);
    if (endsWithGroup) {
      acceptor.close();
      reactor.close(LAST_WORDS);
    }
  }

  private Acceptor listen() {
    String where = config.host() + ":" + config.port();
    // A rendezvous of the previous group in this process may still be closing.
    Deadline deadline = Deadline.after(BIND_TIMEOUT).orAfter(config.joinTimeout());
    while (true) {
      try {
        return bind();
      } catch (BindException e) {
        if (deadline.expired()) {
          throw new JoinRefusedException(
              JoinRefusedException.Reason.PORT_TAKEN,
              "cannot host the rendezvous at %s (%s), because another job or program has the port: choose"
                      .formatted(where, e.getMessage())
                  + " another one, e.g. in EP4J_RENDEZVOUS",
              e);
        }
        RetryDelay.of(
            BIND_PAUSE, "interrupted while waiting for the port of the rendezvous at " + where);
      } catch (IOException e) {
        throw new GroupException(
            ErrorCode.RENDEZVOUS_NOT_HOSTED,
            "cannot host the rendezvous at " + where + ": " + e,
            e);
      }
    }
  }

  /** Listens at the configured address if it is on this host and free; otherwise at any port. */
  private Acceptor listen(InetAddress elsewhere) {
    try {
      InetAddress wanted = InetAddress.getByName(config.host());
      if (isThisHost(wanted)) {
        return acceptor(new InetSocketAddress(bindAddress(config.host()), config.port()));
      }
    } catch (IOException e) {
      // The address is unknown on this host, or taken.
    }
    try {
      Acceptor anywhere = acceptor(new InetSocketAddress(elsewhere, 0));
      LOG.log(
          System.Logger.Level.WARNING,
          "ep4j: the rendezvous of job {0} is now at {1}: start restarted processes with this"
              + " address instead of {2}:{3}",
          jobId,
          anywhere.address().getAddress().getHostAddress() + ":" + anywhere.address().getPort(),
          config.host(),
          Integer.toString(config.port()));
      return anywhere;
    } catch (IOException e) {
      throw new GroupException(
          ErrorCode.RENDEZVOUS_NOT_HOSTED,
          "cannot host a rendezvous at " + elsewhere + ": " + e,
          e);
    }
  }

  private Acceptor bind() throws IOException {
    InetSocketAddress wanted = new InetSocketAddress(bindAddress(config.host()), config.port());
    try {
      return acceptor(wanted);
    } catch (BindException e) {
      if (isThisHost(wanted.getAddress())) {
        throw e;
      }
      // The name resolves to an address that this host does not have (NAT, a service name).
      return acceptor(new InetSocketAddress(config.port()));
    }
  }

  private Acceptor acceptor(InetSocketAddress where) throws IOException {
    return new Acceptor(
        reactor,
        where,
        config.size(),
        JobKey.of(config.secret()),
        Frames.Purpose.RENDEZVOUS,
        coordinator::admit);
  }

  /** The local address to bind, so that ranks that use this host name reach the rendezvous. */
  private static @Nullable InetAddress bindAddress(String host) {
    InetAddress address;
    try {
      address = InetAddress.getByName(host);
    } catch (UnknownHostException e) {
      // A service of Kubernetes has its name only seconds after the pod has started.
      LOG.log(
          System.Logger.Level.WARNING,
          "ep4j: this host cannot resolve {0}, the name of the rendezvous, and listens at all of its"
              + " addresses: if the name is wrong, the other ranks will not find it",
          host);
      return null;
    }
    // Many hosts resolve their own name to loopback, which other hosts cannot reach.
    return address.isLoopbackAddress() && !HostNames.isLoopback(host) ? null : address;
  }

  private static boolean isThisHost(InetAddress address) throws IOException {
    return address.isAnyLocalAddress()
        || address.isLoopbackAddress()
        || NetworkInterface.getByInetAddress(address) != null;
  }

  /** Name of the job, as {@link Group#jobId()}. */
  public String jobId() {
    return jobId;
  }

  /** The listening address; with the actual port if port 0 was requested. */
  public InetSocketAddress address() {
    return address;
  }

  /**
   * The address at which this process reaches the rendezvous, independent of the host name that
   * other ranks use.
   */
  InetSocketAddress reachedFromHere() {
    return reachedFromHere(address);
  }

  private static InetSocketAddress reachedFromHere(InetSocketAddress address) {
    return address.getAddress().isAnyLocalAddress()
        ? new InetSocketAddress(InetAddress.getLoopbackAddress(), address.getPort())
        : address;
  }

  /** The configuration with which a rank joins here. */
  public GroupConfig configOf(int rank) {
    return config.toBuilder()
        .rank(rank)
        .rendezvous(config.host(), address.getPort())
        .hostsRendezvous(false)
        .build();
  }

  /** Exempts a rank of the old group. */
  void exempt(int rank) {
    reactor.post(() -> coordinator.exempt(rank));
  }

  /** Admits no more connections, so that the port becomes free; the members stay. */
  void closeAcceptor() {
    JobFiles.delete(jobFile);
    reactor.post(acceptor::close);
  }

  /** Waits until all members have departed. Returns whether they have. */
  public boolean awaitEnd(Duration timeout) {
    try {
      return ended.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /**
   * Ends the group: the remaining members are notified and lose the rendezvous. Has no effect on
   * members that have left.
   */
  @Override
  public void close() {
    close("it was closed by its owner");
  }

  void close(String why) {
    JobFiles.delete(jobFile);
    reactor.post(
        () -> {
          coordinator.goodbye(why);
          acceptor.close();
        });
    reactor.close(LAST_WORDS);
  }
}
