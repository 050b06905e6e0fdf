package org.ep4j.engine.host;

import org.ep4j.engine.Rails;
import org.jspecify.annotations.Nullable;

/**
 * A combine between several nodes: sends back what this node has for the tokens that this rank took
 * for it, and sums this rank's own tokens as what other nodes have for them arrives, until both are
 * done.
 */
final class CombineExchange extends Exchange {
  private final SumTerms terms;
  private final FarRows far = new FarRows();
  private final NodeSum sum;

  /** From each other node that has ranks left. */
  private final CombineStream[] streams;

  /** For each partner whose tokens this rank took; null for others. */
  private final @Nullable CombineReturner[] returners;

  /** Tokens before this one have all that they get from other nodes. */
  private int ready;

  /** Tokens before this one are summed, before the other being summed. */
  private int summed;

  private int summing;

  /** Whose chunk the team fills; null if it sums. */
  private @Nullable CombineReturner returning;

  /** Place of the partner that gets the next chunk. */
  private int turn;

  /** Whether sums are due before another chunk. */
  private boolean sumNext;

  CombineExchange(
      HostContext context, ScaleOut connection, SumTerms terms, long partialRows, WorkerTeam team) {
    super(context, connection, team);
    this.terms = terms;
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

  /** The rows of this node can be read. */
  @Override
  void begin(HostHandle handle) {
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
    returning = null;
  }

  @Override
  boolean move(HostHandle handle, long epoch) {
    boolean moved = connection.poll() > 0;
    ready = handle.tokens;
    for (CombineStream stream : streams) {
      moved |= stream.step(handle, terms, far, epoch);
      // Also what has just come: where all is summed, an empty chunk may still end the stream.
      stream.release(summed);
      ready = Math.min(ready, stream.ready());
    }
    return moved;
  }

  @Override
  boolean start(HostHandle handle, long epoch) {
    // In turns: others wait for what is sent, and for the room of what is summed.
    return (sumNext && sum(handle)) || fill(epoch) || sum(handle);
  }

  private boolean sum(HostHandle handle) {
    if (ready == summed) {
      return false;
    }
    sum.start(handle, summed, ready, team);
    summing = ready;
    sumNext = false;
    return true;
  }

  private boolean fill(long epoch) {
    for (int i = 0; i < returners.length; i++) {
      CombineReturner returner = returners[turn];
      turn = turn + 1 == returners.length ? 0 : turn + 1;
      if (returner != null && returner.start(epoch, team)) {
        returning = returner;
        sumNext = true;
        return true;
      }
    }
    return false;
  }

  @Override
  void finished() {
    if (returning != null) {
      returning.filled();
      returning = null;
      return;
    }
    summed = summing;
    for (CombineStream stream : streams) {
      stream.release(summed);
    }
  }

  @Override
  boolean done(HostHandle handle) {
    if (summed < handle.tokens) {
      return false;
    }
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

  @Override
  void pause(int round, long begin, String operation, long epoch) {
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
