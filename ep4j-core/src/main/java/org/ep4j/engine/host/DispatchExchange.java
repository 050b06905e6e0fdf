package org.ep4j.engine.host;

import org.ep4j.engine.Rails;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * The part of a dispatch that crosses between nodes: sends this rank's tokens to its rails, and
 * pushes to this node what arrives for it, until both are done. Tokens for this node itself are
 * pushed in between. The caller drives the wire, beside a team that is large enough to push without
 * it, else in turns.
 */
final class DispatchExchange {
  /** Own tokens that are pushed before the wire gets its turn again. */
  private static final int TOKENS_A_TURN = 256;

  private final HostContext context;
  private final ScaleOut connection;
  private final WorkerTeam team;

  /** To each other node that has ranks left. */
  private final DispatchStream[] streams;

  /** For each partner that sends to this node through this rank; null for others. */
  private final @Nullable DispatchForwarder[] forwarders;

  /** Pushes own tokens, in parts; the number of the next one, and of all. */
  private RowPush ownRows;

  private int part;
  private int parts;

  /** Place of the partner whose chunks are looked for next. */
  private int turn;

  /** Whether the team is at something, and whose chunk if it is one. */
  private boolean working;

  private @Nullable DispatchForwarder forwarding;

  DispatchExchange(
      HostContext context,
      ScaleOut connection,
      HighThroughputLayout layout,
      ExpertTable table,
      WorkerTeam team) {
    this.context = context;
    this.connection = connection;
    this.team = team;
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
    ownRows = push;
    forwarders = new DispatchForwarder[partners.length];
    for (int place = 0; place < partners.length; place++) {
      if (rails.rail(partners[place], own) == context.rank) {
        forwarders[place] = new DispatchForwarder(connection.receivers()[place], inChunk, push);
      }
    }
  }

  /**
   * Runs the exchange; every rank is in the same operation.
   *
   * @param push pushes this rank's own tokens to its node
   */
  void run(HostHandle handle, Payload payload, RowPush push, String operation) {
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
    push.prepare(handle);
    ownRows = push;
    parts = Math.ceilDiv(handle.tokens, TOKENS_A_TURN);
    part = 0;
    working = false;
    forwarding = null;
    boolean complete = false;
    try {
      exchange(handle, forwards, payload, operation);
      complete = true;
    } finally {
      if (!complete) {
        team.abandon();
      }
    }
  }

  private void exchange(HostHandle handle, Forward[] forwards, Payload payload, String operation) {
    long epoch = context.epoch;
    long begin = 0;
    int idle = 0;
    while (working || part < parts || !done()) {
      boolean moved = move(handle, payload, epoch);
      moved |= work(handle, forwards, payload, epoch);
      if (moved) {
        idle = 0;
      } else if (working) {
        context.wait.relax(++idle);
      } else {
        begin = idle == 0 ? PeerWait.begin() : begin;
        pause(++idle, begin, operation, epoch);
      }
    }
  }

  private boolean done() {
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

  /** Gives the wire its turn; whether anything moved. */
  private boolean move(HostHandle handle, Payload payload, long epoch) {
    boolean moved = false;
    for (DispatchStream stream : streams) {
      moved |= stream.step(handle, payload, epoch);
    }
    return connection.poll() > 0 || moved;
  }

  /** Gives the team something to do when it has done the last; whether it did either. */
  private boolean work(HostHandle handle, Forward[] forwards, Payload payload, long epoch) {
    boolean moved = finishWork();
    if (working) {
      return moved;
    }
    // What has come first: others wait for the room that it takes, one after the other.
    for (int i = 0; i < forwarders.length && !working; i++) {
      int place = turn;
      turn = turn + 1 == forwarders.length ? 0 : turn + 1;
      DispatchForwarder forwarder = forwarders[place];
      if (forwarder != null && forwarder.start(handle, forwards[place], payload, epoch, team)) {
        forwarding = forwarder;
        working = true;
      }
    }
    if (!working && part < parts) {
      ownRows.start(part++, parts, team);
      working = true;
    }
    boolean began = working;
    finishWork();
    return moved || began;
  }

  /** Whether the team was at something and has done it. */
  private boolean finishWork() {
    if (!working || team.busy()) {
      return false;
    }
    team.finish();
    if (forwarding != null) {
      forwarding.pushed();
      forwarding = null;
    }
    working = false;
    return true;
  }

  /** Waits a moment for a rank whose part is missing. */
  private void pause(int round, long begin, String operation, long epoch) {
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
