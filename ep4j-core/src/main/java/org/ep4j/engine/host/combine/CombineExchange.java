package org.ep4j.engine.host.combine;

import org.ep4j.engine.host.context.Exchange;
import org.ep4j.engine.host.context.Forward;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.InternodeRows;
import org.ep4j.engine.host.context.MissingParts;
import org.ep4j.engine.host.context.NodeRoutes;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Rails;
import org.jspecify.annotations.Nullable;

/**
 * The internode part of a combine: returns the rows of this node for the tokens that this rank
 * received for the node, and sums this rank's own tokens when the rows of other nodes arrive, until
 * both are done.
 */
final class CombineExchange extends Exchange {
  /** Maximum number of tokens of a unit of work. */
  private static final int TOKENS_OF_A_UNIT = 32;

  /** Maximum number of units of sums in progress. */
  private static final int UNITS = 64;

  private final SumTerms terms;
  private final InternodeRows internode = new InternodeRows();
  private final NodeSum sum;

  /** One for each other node with live ranks. */
  private final CombineReceiver[] receivers;

  /** For each partner whose tokens this rank received; null for others. */
  private final @Nullable CombineReturner[] returners;

  /** Units of sums in order; the numbers of submitted and of finished units. */
  private final Sums[] units = new Sums[UNITS];

  private int given;
  private int finished;

  /** Tokens before the first one are summed; tokens before the second one are submitted. */
  private int summed;

  private int summing;

  /** Consecutive tokens that one worker sums. */
  private final class Sums extends WorkQueue.Unit {
    int from;
    int to;

    @Override
    public void run(int worker) {
      sum.tokens(from, to, worker);
    }
  }

  CombineExchange(
      HostContext context, ScaleOut connection, SumTerms terms, long partialRows, WorkerTeam team) {
    // All units have one priority: peers wait for sent rows, and for the space of summed rows.
    super(context, connection, team, 0, connection.senders().length * ScaleOutLayout.SLOTS + UNITS);
    this.terms = terms;
    sum = new NodeSum(context, terms, internode, partialRows);
    Rails rails = connection.rails();
    int own = context.nodes.of(context.rank);
    int[] partners = rails.partners(context.rank);
    int[] others = rails.nodesBeside(context.rank);
    receivers = new CombineReceiver[others.length];
    for (int i = 0; i < others.length; i++) {
      int place = rails.place(context.rank, rails.rail(context.rank, others[i]));
      receivers[i] =
          new CombineReceiver(
              connection.receivers()[place],
              new NodeRoutes(context.nodes.first(others[i]), context.nodes.end(others[i])));
    }
    returners = new CombineReturner[partners.length];
    for (int place = 0; place < partners.length; place++) {
      if (rails.rail(partners[place], own) == context.rank) {
        returners[place] =
            new CombineReturner(
                connection.senders()[place],
                terms,
                context.config.topK(),
                connection.layout().chunkBytes);
      }
    }
    for (int i = 0; i < units.length; i++) {
      units[i] = new Sums();
    }
  }

  /** Called when the rows of this node are readable. */
  @Override
  public void begin(HostHandle handle) {
    internode.ensure(handle.start[handle.tokens]);
    for (CombineReceiver stream : receivers) {
      stream.begin(handle);
    }
    Forward[] forwards = handle.forwards(returners.length);
    for (int place = 0; place < returners.length; place++) {
      CombineReturner returner = returners[place];
      if (returner != null) {
        returner.begin(handle, forwards[place], team);
      }
    }
    sum.prepare(handle, team);
    given = 0;
    finished = 0;
    summed = 0;
    summing = 0;
  }

  @Override
  public boolean move(HostHandle handle, long epoch, WorkQueue work) {
    boolean moved = connection.poll() > 0;
    int ready = handle.tokens;
    for (CombineReceiver stream : receivers) {
      moved |= stream.step(handle, terms, internode, epoch);
      ready = Math.min(ready, stream.ready());
    }
    for (CombineReturner returner : returners) {
      moved |= returner != null && returner.step(epoch, work);
    }
    return sum(ready, work) || moved;
  }

  /** Releases the chunks of summed tokens, and submits the tokens that are ready. */
  private boolean sum(int ready, WorkQueue work) {
    boolean moved = false;
    while (finished < given && units[finished % units.length].done()) {
      summed = units[finished++ % units.length].to;
      moved = true;
    }
    // Includes chunks that have just arrived: after the last sum, an empty chunk may still end the
    // stream.
    for (CombineReceiver stream : receivers) {
      stream.release(summed);
    }
    while (summing < ready && given - finished < units.length) {
      Sums unit = units[given++ % units.length];
      unit.from = summing;
      summing = Math.min(ready, summing + TOKENS_OF_A_UNIT);
      unit.to = summing;
      work.give(unit);
      moved = true;
    }
    return moved;
  }

  @Override
  public boolean done(HostHandle handle) {
    if (summed < handle.tokens) {
      return false;
    }
    for (CombineReceiver stream : receivers) {
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
  public void missing(MissingParts parts) {
    // A node whose chunks have arrived may still have to wait for the sums, and these for others.
    for (CombineReceiver stream : receivers) {
      if (!stream.arrived()) {
        parts.add(stream.peer(), stream.taken(), "chunks");
      }
    }
    for (CombineReturner returner : returners) {
      if (parts.isEmpty() && returner != null && !returner.done()) {
        parts.add(returner.peer(), returner.sent(), "room");
      }
    }
    for (CombineReceiver stream : receivers) {
      if (parts.isEmpty() && !stream.done()) {
        parts.add(stream.peer(), stream.taken(), "chunks");
      }
    }
  }
}
