package org.ep4j.group.rendezvous;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.function.Function;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.GroupException;
import org.ep4j.group.protocol.Deadline;
import org.ep4j.group.protocol.Reactor;
import org.jspecify.annotations.Nullable;

/** Makes a process a rank, in a group that forms or one that runs. */
public final class GroupJoin {
  private GroupJoin() {}

  /** {@link Group#join}. */
  public static Group join(GroupConfig config) {
    if (config.size() == 1 && config.secret().isEmpty()) {
      return InProcessGroup.world(1).getFirst();
    }
    requirePort(config);
    Deadline deadline = Deadline.after(config.joinTimeout());
    Rendezvous own = config.hostsRendezvous() ? Rendezvous.hostedByRank(config) : null;
    try {
      return join(config, own, deadline, true);
    } catch (IOException e) {
      throw new GroupException(
          ErrorCode.JOIN_FAILED,
          "rank %d cannot join at %s:%d: %s"
              .formatted(config.rank(), config.host(), config.port(), e),
          e);
    }
  }

  /** {@link Group#rejoin}. */
  public static Group rejoin(GroupConfig config) {
    if (config.size() == 1) {
      throw new InvalidArgumentException(
          ErrorCode.GROUP_SIZE, "size", "1", "at least 2 to rejoin", "call Group.join");
    }
    requirePort(config);
    Deadline deadline = Deadline.after(config.joinTimeout());
    try {
      return join(
          config, null, reactor -> new JoinClient(config, null, deadline, reactor, true, true));
    } catch (IOException e) {
      throw new GroupException(
          ErrorCode.JOIN_FAILED,
          "rank %d cannot rejoin at %s:%d: %s"
              .formatted(config.rank(), config.host(), config.port(), e),
          e);
    }
  }

  private static void requirePort(GroupConfig config) {
    if (config.port() == 0) {
      throw new InvalidArgumentException(
          ErrorCode.RENDEZVOUS_ADDRESS,
          "port",
          "0",
          "from 1 to 65535",
          "pass the port of the rendezvous");
    }
  }

  /**
   * Joins at the rendezvous that the configuration names.
   *
   * @param own the rendezvous if this process hosts it; the group owns it afterwards, and it is
   *     closed if joining fails
   * @param awaitsListener as for {@link JoinClient}
   */
  static TcpGroup join(
      GroupConfig config, @Nullable Rendezvous own, Deadline deadline, boolean awaitsListener)
      throws IOException {
    InetSocketAddress here = own == null ? null : own.reachedFromHere();
    return join(
        config,
        own,
        reactor -> new JoinClient(config, here, deadline, reactor, awaitsListener, false));
  }

  private static TcpGroup join(
      GroupConfig config, @Nullable Rendezvous own, Function<Reactor, JoinClient> client)
      throws IOException {
    String failure = "rank " + config.rank() + ", which hosts it, could not join";
    Reactor reactor = null;
    boolean done = false;
    try {
      reactor =
          new Reactor(
              "ep4j-group-" + config.rank(), config.heartbeatInterval(), config.livenessTimeout());
      TcpGroup group = new TcpGroup(config, client.apply(reactor).join(), reactor, own);
      group.start();
      done = true;
      return group;
    } catch (GroupException e) {
      failure = String.valueOf(e.getMessage());
      throw e;
    } finally {
      if (!done) {
        if (reactor != null) {
          reactor.close();
        }
        if (own != null) {
          own.close(failure);
        }
      }
    }
  }
}
