package org.ep4j.engine.host;

import org.ep4j.engine.Rails;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * The part of a dispatch that crosses between nodes: sends this rank's tokens to its rails, and
 * pushes to this node what arrives for it, until both are done. Tokens for this node itself are
 * pushed in between.
 */
final class DispatchExchange extends Exchange {
  /** Own tokens that are pushed before the wire gets its turn again. */
  private static final int TOKENS_A_TURN = 256;

  private final Payload payload;

  /** To each other node that has ranks left. */
  private final DispatchStream[] streams;

  /** For each partner that sends to this node through this rank; null for others. */
  private final @Nullable DispatchForwarder[] forwarders;

  /** Pushes own tokens, in parts; the number of the next one, and of all. */
  private final RowPush ownRows;

  private int part;
  private int parts;

  /** Place of the partner whose chunks are looked for next. */
  private int turn;

  /** Whose chunk the team is at; null if it is not at one. */
  private @Nullable DispatchForwarder forwarding;

  /**
   * @param payload of the dispatch that runs
   * @param ownRows pushes this rank's own tokens to its node
   */
  DispatchExchange(
      HostContext context,
      ScaleOut connection,
      HighThroughputLayout layout,
      ExpertTable table,
      WorkerTeam team,
      Payload payload,
      RowPush ownRows) {
    super(context, connection, team);
    this.payload = payload;
    this.ownRows = ownRows;
    Rails rails = connection.rails();
    int own = context.nodes.of(context.rank);
    int[] partners = rails.partners(context.rank);
    int[] others = rails.nodesBeside(context.rank);
    streams = new DispatchStream[others.length];
    for (int i = 0; i < others.length; i++) {
      int place = rails.place(context.rank, rails.rail(context.rank, others[i]));
      streams[i] =
          new DispatchStream(
              connection.senders()[place],
              new NodeWays(context.nodes.first(others[i]), context.nodes.end(others[i])),
              connection.layout().chunkBytes);
    }
    Payload inChunk = new Payload();
    RowPush push = new RowPush(context, layout, table, inChunk);
    forwarders = new DispatchForwarder[partners.length];
    for (int place = 0; place < partners.length; place++) {
      if (rails.rail(partners[place], own) == context.rank) {
        forwarders[place] = new DispatchForwarder(connection.receivers()[place], inChunk, push);
      }
    }
  }

  @Override
  void begin(HostHandle handle) {
    Region rows =
        payload.streamable
            ? connection.borrowed().borrow(payload.x, handle.tokens * payload.rowBytes)
            : null;
    for (DispatchStream stream : streams) {
      stream.begin(rows);
    }
    Forward[] forwards = handle.forwards(forwarders.length);
    for (int place = 0; place < forwarders.length; place++) {
      DispatchForwarder forwarder = forwarders[place];
      if (forwarder != null) {
        forwarder.begin();
        forwards[place].clear();
      }
    }
    ownRows.prepare(handle);
    parts = Math.ceilDiv(handle.tokens, TOKENS_A_TURN);
    part = 0;
    forwarding = null;
  }

  @Override
  boolean done(HostHandle handle) {
    if (part < parts) {
      return false;
    }
    for (DispatchStream stream : streams) {
      if (!stream.done()) {
        return false;
      }
    }
    for (DispatchForwarder forwarder : forwarders) {
      if (forwarder != null && !forwarder.done()) {
        return false;
      }
    }
    return true;
  }

  @Override
  boolean move(HostHandle handle, long epoch) {
    boolean moved = false;
    for (DispatchStream stream : streams) {
      moved |= stream.step(handle, payload, epoch);
    }
    return connection.poll() > 0 || moved;
  }

  @Override
  boolean start(HostHandle handle, long epoch) {
    // What has come first: others wait for the room that it takes, one after the other.
    Forward[] forwards = handle.forwards(forwarders.length);
    for (int i = 0; i < forwarders.length; i++) {
      int place = turn;
      turn = turn + 1 == forwarders.length ? 0 : turn + 1;
      DispatchForwarder forwarder = forwarders[place];
      if (forwarder != null && forwarder.start(handle, forwards[place], payload, epoch, team)) {
        forwarding = forwarder;
        return true;
      }
    }
    if (part == parts) {
      return false;
    }
    ownRows.start(part++, parts, team);
    return true;
  }

  @Override
  void finished() {
    if (forwarding != null) {
      forwarding.pushed();
      forwarding = null;
    }
  }

  @Override
  void pause(int round, long begin, String operation, long epoch) {
    for (DispatchForwarder forwarder : forwarders) {
      if (forwarder != null && !forwarder.done()) {
        long taken = forwarder.taken();
        context.wait.idle(
            round, begin, forwarder.peer(), taken + 1, taken, operation, "chunks", epoch);
        return;
      }
    }
    for (DispatchStream stream : streams) {
      if (!stream.done()) {
        long sent = stream.sent();
        context.wait.idle(round, begin, stream.peer(), sent + 1, sent, operation, "room", epoch);
        return;
      }
    }
  }
}
