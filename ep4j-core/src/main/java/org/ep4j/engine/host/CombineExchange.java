package org.ep4j.engine.host;

import org.ep4j.engine.Rails;
import org.jspecify.annotations.Nullable;

/**
 * A combine between several nodes: sends back what this node has for the tokens that this rank took
 * for it, and sums this rank's own tokens as what other nodes have for them arrives, until both are
 * done. The caller drives the wire, beside a team that is large enough to sum without it, else in
 * turns.
 */
final class CombineExchange {
  private final HostContext context;
  private final ScaleOut connection;
  private final SumTerms terms;
  private final FarRows far = new FarRows();
  private final NodeSum sum;
  private final WorkerTeam team;

  /** From each other node that has ranks left. */
  private final CombineStream[] streams;

  /** For each partner whose tokens this rank took; null for others. */
  private final @Nullable CombineReturner[] returners;

  /** Tokens before this one are summed, before the other being summed. */
  private int summed;

  private int summing;

  /** Whether the team is at something, and whose chunk if it fills one. */
  private boolean working;

  private @Nullable CombineReturner returning;

  /** Place of the partner that gets the next chunk. */
  private int turn;

  /** Whether sums are due before another chunk. */
  private boolean sumNext;

  CombineExchange(
      HostContext context, ScaleOut connection, SumTerms terms, long partialRows, WorkerTeam team) {
    this.context = context;
    this.connection = connection;
    this.terms = terms;
    this.team = team;
    sum = new NodeSum(context, terms, far, partialRows);
    Rails rails = connection.rails();
    int own = context.nodes.of(context.rank);
    int[] partners = rails.partners(context.rank);
    int[] others = rails.nodesBeside(context.rank);
    streams = new CombineStream[others.length];
    for (int i = 0; i < others.length; i++) {
      int place = rails.place(context.rank, rails.rail(context.rank, others[i]));
      streams[i] =
          new CombineStream(
              connection.receivers()[place],
              new NodeWays(context.nodes.first(others[i]), context.nodes.end(others[i])));
    }
    returners = new CombineReturner[partners.length];
    for (int place = 0; place < partners.length; place++) {
      if (rails.rail(partners[place], own) == context.rank) {
        returners[place] =
            new CombineReturner(
                connection.senders()[place],
                terms,
                context.config.hidden(),
                context.config.topK(),
                connection.layout().chunkBytes);
      }
    }
  }

  /** Runs the exchange; every rank is in the same operation, and its rows can be read. */
  void run(HostHandle handle, String operation) {
    long epoch = context.epoch;
    far.ensure(handle.start[handle.tokens]);
    for (CombineStream stream : streams) {
      stream.begin(handle);
    }
    Forward[] forwards = handle.forwards(returners.length);
    for (int place = 0; place < returners.length; place++) {
      CombineReturner returner = returners[place];
      if (returner != null) {
        returner.begin(handle, forwards[place]);
      }
    }
    summed = 0;
    summing = 0;
    working = false;
    returning = null;
    boolean complete = false;
    try {
      exchange(handle, operation, epoch);
      complete = true;
    } finally {
      if (!complete) {
        team.abandon();
      }
    }
  }

  private void exchange(HostHandle handle, String operation, long epoch) {
    long begin = 0;
    int idle = 0;
    while (working || summed < handle.tokens || !done()) {
      boolean moved = connection.poll() > 0;
      int ready = handle.tokens;
      for (CombineStream stream : streams) {
        moved |= stream.step(handle, terms, far, epoch);
        ready = Math.min(ready, stream.ready());
      }
      moved |= work(handle, ready, epoch);
      for (CombineStream stream : streams) {
        stream.release(summed);
      }
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

  /** Gives the team something to do when it has done the last; whether it did either. */
  private boolean work(HostHandle handle, int ready, long epoch) {
    boolean moved = finishWork();
    if (working) {
      return moved;
    }
    // In turns: others wait for what is sent, and for the room of what is summed.
    boolean began = sumNext && sum(handle, ready);
    began = began || fill(epoch) || sum(handle, ready);
    finishWork();
    return moved || began;
  }

  private boolean sum(HostHandle handle, int ready) {
    if (ready == summed) {
      return false;
    }
    sum.start(handle, summed, ready, team);
    summing = ready;
    sumNext = false;
    working = true;
    return true;
  }

  private boolean fill(long epoch) {
    for (int i = 0; i < returners.length; i++) {
      CombineReturner returner = returners[turn];
      turn = turn + 1 == returners.length ? 0 : turn + 1;
      if (returner != null && returner.start(epoch, team)) {
        returning = returner;
        sumNext = true;
        working = true;
        return true;
      }
    }
    return false;
  }

  /** Whether the team was at something and has done it. */
  private boolean finishWork() {
    if (!working || team.busy()) {
      return false;
    }
    team.finish();
    if (returning != null) {
      returning.filled();
      returning = null;
    } else {
      summed = summing;
    }
    working = false;
    return true;
  }

  private boolean done() {
    for (CombineStream stream : streams) {
      if (!stream.done()) {
        return false;
      }
    }
    for (CombineReturner returner : returners) {
      if (returner != null && !returner.done()) {
        return false;
      }
    }
    return true;
  }

  /** Waits a moment for a rank whose part is missing. */
  private void pause(int round, long begin, String operation, long epoch) {
    for (CombineStream stream : streams) {
      if (!stream.done()) {
        long taken = stream.taken();
        context.wait.idle(
            round, begin, stream.peer(), taken + 1, taken, operation, "chunks", epoch);
        return;
      }
    }
    for (CombineReturner returner : returners) {
      if (returner != null && !returner.done()) {
        long sent = returner.sent();
        context.wait.idle(round, begin, returner.peer(), sent + 1, sent, operation, "room", epoch);
        return;
      }
    }
  }
}
