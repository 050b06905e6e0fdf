package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.context.Exchange;
import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.MissingParts;
import org.ep4j.engine.host.context.NodeRoutes;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Rails;
import org.ep4j.memory.NonTemporalCopy.PresentPages;
import org.ep4j.wire.Region;
import org.jspecify.annotations.Nullable;

/**
 * The internode part of a dispatch: sends this rank's tokens to its rails, and has workers push
 * tokens that arrive for this node, until both are done. Workers push the tokens for this node
 * itself meanwhile.
 */
final class DispatchExchange extends Exchange {
  /** Number of own tokens of a unit of work. */
  private static final int TOKENS_OF_A_UNIT = 256;

  /** Maximum number of units of own tokens in progress. */
  private static final int UNITS = 16;

  private final Payload payload;

  /** One for each other node with live ranks. */
  private final DispatchSender[] senders;

  /** For each partner that sends to this node through this rank; null for others. */
  private final @Nullable DispatchForwarder[] forwarders;

  /** Pushes own tokens, in units in order; the numbers of submitted units and of all units. */
  private final RowPush ownRows;

  private final PushUnit[] units = new PushUnit[UNITS];
  private int given;
  private int parts;

  /**
   * @param payload of the running dispatch
   * @param ownRows pushes this rank's own tokens to its node
   */
  DispatchExchange(
      HostContext context, ScaleOut connection, WorkerTeam team, Payload payload, RowPush ownRows) {
    // Chunks from other nodes have priority: their senders wait for the space.
    super(context, connection, team, connection.receivers().length * ScaleOutLayout.SLOTS, UNITS);
    this.payload = payload;
    this.ownRows = ownRows;
    Rails rails = connection.rails();
    int own = context.nodes.of(context.rank);
    int[] partners = rails.partners(context.rank);
    int[] others = rails.nodesBeside(context.rank);
    senders = new DispatchSender[others.length];
    for (int i = 0; i < others.length; i++) {
      int place = rails.place(context.rank, rails.rail(context.rank, others[i]));
      senders[i] =
          new DispatchSender(
              connection.senders()[place],
              new NodeRoutes(context.nodes.first(others[i]), context.nodes.end(others[i])),
              connection.layout().chunkBytes);
    }
    PresentPages pages = PresentPages.of(context.memory, context.ranks);
    forwarders = new DispatchForwarder[partners.length];
    for (int place = 0; place < partners.length; place++) {
      if (rails.rail(partners[place], own) == context.rank) {
        forwarders[place] = new DispatchForwarder(ownRows, pages, connection.receivers()[place]);
      }
    }
    for (int i = 0; i < units.length; i++) {
      units[i] = new PushUnit(ownRows);
    }
  }

  @Override
  public void begin(HostHandle handle) {
    Region rows =
        payload.streamable
            ? connection.registrations().acquire(payload.x, handle.tokens * payload.rowBytes)
            : null;
    for (DispatchSender stream : senders) {
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
    ownRows.prepare(handle, team);
    parts = Math.ceilDiv(handle.tokens, TOKENS_OF_A_UNIT);
    given = 0;
  }

  @Override
  public boolean done(HostHandle handle) {
    if (given < parts) {
      return false;
    }
    for (DispatchSender stream : senders) {
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
  public boolean move(HostHandle handle, long epoch, WorkQueue work) {
    boolean moved = false;
    for (DispatchSender stream : senders) {
      moved |= stream.step(handle, payload, epoch);
    }
    moved |= connection.poll() > 0;
    Forward[] forwards = handle.forwards(forwarders.length);
    for (int place = 0; place < forwarders.length; place++) {
      DispatchForwarder forwarder = forwarders[place];
      if (forwarder != null) {
        moved |= forwarder.step(handle, forwards[place], payload, epoch, team, work);
      }
    }
    return giveOwn(handle.tokens, work) || moved;
  }

  /** Submits own tokens to the workers while there is space; returns whether it did. */
  private boolean giveOwn(long tokens, WorkQueue work) {
    int before = given;
    while (given < parts) {
      PushUnit unit = units[given % units.length];
      if (given >= units.length && !unit.done()) {
        break;
      }
      unit.set((int) (tokens * given / parts), (int) (tokens * (given + 1) / parts));
      work.give(unit);
      given++;
    }
    return given != before;
  }

  @Override
  public void missing(MissingParts parts) {
    for (DispatchForwarder forwarder : forwarders) {
      if (forwarder != null && !forwarder.done()) {
        parts.add(forwarder.peer(), forwarder.taken(), "chunks");
      }
    }
    if (parts.isEmpty()) {
      for (DispatchSender stream : senders) {
        if (!stream.done()) {
          parts.add(stream.peer(), stream.sent(), "room");
        }
      }
    }
  }
}
