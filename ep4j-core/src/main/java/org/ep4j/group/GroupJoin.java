package org.ep4j.group;

import java.io.IOException;
import java.net.InetSocketAddress;
import org.jspecify.annotations.Nullable;

/** How a process becomes a rank: by joining a group that forms, or one that runs. */
final class GroupJoin {
  private GroupJoin() {}

  /** {@link Group#join}. */
  static Group join(GroupConfig config) {
    if (config.size() == 1 && config.secret().isEmpty()) {
      return InProcessGroup.world(1).getFirst();
    }
    requirePort(config);
    Deadline deadline = Deadline.after(config.joinTimeout());
    Rendezvous own = config.hostsRendezvous() ? Rendezvous.hostedByRank(config) : null;
    try {
      return join(config, own, deadline, true);
    } catch (IOException e) {
      throw new GroupException("cannot join: " + e, e);
    }
  }

  /** {@link Group#rejoin}. */
  static Group rejoin(GroupConfig config) {
    if (config.size() == 1) {
      throw new IllegalArgumentException(
          "size is 1: a rank without others has no group to come back to; join instead");
    }
    requirePort(config);
    Deadline deadline = Deadline.after(config.joinTimeout());
    Reactor reactor = reactor(config);
    try {
      return join(
          config, null, reactor, new JoinClient(config, null, deadline, reactor, true, true));
    } catch (IOException e) {
      throw new GroupException("cannot rejoin: " + e, e);
    }
  }

  private static void requirePort(GroupConfig config) {
    if (config.port() == 0) {
      throw new IllegalArgumentException("port is 0; a rank needs the port of the rendezvous");
    }
  }

  private static Reactor reactor(GroupConfig config) {
    return new Reactor(
        "ep4j-group-" + config.rank(), config.heartbeatInterval(), config.livenessTimeout());
  }

  /**
   * Joins at the rendezvous that the configuration names.
   *
   * @param own that rendezvous if this process hosts it; belongs to the group from now on, and is
   *     closed if joining fails
   * @param awaitsListener as for {@link JoinClient}
   */
  static TcpGroup join(
      GroupConfig config, @Nullable Rendezvous own, Deadline deadline, boolean awaitsListener)
      throws IOException {
    Reactor reactor = reactor(config);
    InetSocketAddress here = own == null ? null : own.reachedFromHere();
    return join(
        config,
        own,
        reactor,
        new JoinClient(config, here, deadline, reactor, awaitsListener, false));
  }

  private static TcpGroup join(
      GroupConfig config, @Nullable Rendezvous own, Reactor reactor, JoinClient client)
      throws IOException {
    String failure = "rank " + config.rank() + ", who hosts it, could not join";
    boolean done = false;
    try {
      TcpGroup group = new TcpGroup(config, client.join(), reactor, own);
      group.start();
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
}
