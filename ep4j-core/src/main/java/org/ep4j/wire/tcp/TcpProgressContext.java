package org.ep4j.wire.tcp;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.List;
import java.util.function.Consumer;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.LaneFailure.Cause;
import org.jspecify.annotations.Nullable;

/**
 * The connections that one thread drives: some of the connections to every peer. A few connections
 * are simply tried, which costs less than a selector; a selector also allocates an object per event
 * of a socket whose number is above 127.
 */
final class TcpProgressContext {
  private static final int TRIED = 8;

  private final Group group;
  private final @Nullable Selector selector;
  private final Connection[] connections;
  // One object for all polls, so that a poll allocates nothing.
  private final Consumer<SelectionKey> action = this::ready;
  private long done;
  private int looked;

  private TcpProgressContext(Group group, @Nullable Selector selector, Connection[] connections) {
    this.group = group;
    this.selector = selector;
    this.connections = connections;
  }

  static TcpProgressContext open(Group group, List<Connection> connections) throws IOException {
    boolean carried = connections.stream().anyMatch(Connection::carried);
    Selector selector = connections.size() > TRIED && !carried ? Selector.open() : null;
    TcpProgressContext context =
        new TcpProgressContext(group, selector, connections.toArray(Connection[]::new));
    boolean done = false;
    try {
      for (Connection connection : connections) {
        if (selector != null) {
          connection.register(selector);
        }
      }
      done = true;
      return context;
    } finally {
      if (!done) {
        context.close();
      }
    }
  }

  Connection[] connections() {
    return connections;
  }

  int poll() {
    done = 0;
    for (Connection connection : connections) {
      done += connection.send();
    }
    Selector known = selector;
    if (known == null) {
      for (Connection connection : connections) {
        connection.unblock();
        done += connection.receive();
      }
    } else {
      select(known);
    }
    if (done == 0) {
      look();
    }
    return (int) Math.min(done, Integer.MAX_VALUE);
  }

  private void select(Selector known) {
    try {
      known.selectNow(action);
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.WIRE_FAILED.message("the selector failed: " + e.getMessage()), e);
    }
    for (Connection connection : connections) {
      if (connection.holdsInput()) {
        done += connection.receive();
      }
    }
  }

  private void ready(SelectionKey key) {
    if (key.attachment() instanceof Connection connection) {
      done += connection.ready(key);
    }
  }

  /**
   * Asks the group for the state of one peer: the connections of a dead host do not end by
   * themselves, and neither do those over a path that is cut.
   */
  private void look() {
    if (connections.length == 0) {
      return;
    }
    looked = looked + 1 >= connections.length ? 0 : looked + 1;
    Connection connection = connections[looked];
    if (connection.failed()) {
      return;
    }
    boolean alive = group.isAlive(connection.peer());
    String why =
        alive ? connection.reported() : String.valueOf(group.deathReport(connection.peer()));
    if (why != null) {
      // Data that the peer sent before is in the socket: read it first.
      done += connection.receiveNow();
      if (done == 0) {
        connection.fail(alive ? Cause.LOST : Cause.DEPARTED, why);
        done = 1;
      }
    }
  }

  void close() {
    try {
      if (selector != null) {
        selector.close();
      }
    } catch (IOException e) {
      // Nothing depends on it any more.
    }
  }
}
