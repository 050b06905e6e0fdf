package org.ep4j.engine.host;

import java.time.Duration;
import org.ep4j.engine.Reunion;
import org.ep4j.group.Group;

/**
 * Getting out of a broken operation, and taking in ranks that come back: the ranks that are alive
 * find each other through the group, not through the words in shared memory, and agree on who is
 * gone, on an epoch that none has used, and on the number of the last low-latency operation.
 */
final class Recovery {
  private static final int EPOCH = 0;
  private static final int LOW_LATENCY = 1;
  private static final int MEMORY = 2;

  /** Words that the ranks agree on. */
  static final int AGREED_WORDS = 3;

  private final HostContext context;
  private final HostMemory memory;
  private final LowLatency lowLatency;
  private final Connector connector;

  /** Nobody who is not a member reaches the memory of the live ranks. */
  private static final long SETTLED = 0;

  /** The old process of a rank that has come back may: the next reset leaves the memory. */
  private static final long EXPOSED = 1;

  /** It is not known whether all have left their memory: whatever is next leaves it again. */
  private static final long UNSETTLED = 2;

  /** One of these, as this rank knows it; the highest counts. */
  private long state = SETTLED;

  // Others may have begun to wait for what never comes only when this rank was told.
  private final Duration timeout;

  Recovery(HostContext context, HostMemory memory, LowLatency lowLatency, Connector connector) {
    this.context = context;
    this.memory = memory;
    this.lowLatency = lowLatency;
    this.connector = connector;
    timeout = context.config.timeout().multipliedBy(2);
  }

  /** Collective among the live ranks. */
  void reset() {
    try (Reunion reunion = Reunion.ofSurvivors(context.group, context.members, timeout, words())) {
      leaveMemoryToLost(reunion);
      beginAnew(reunion, SETTLED);
    }
  }

  /** Collective among the live ranks, some of which call {@link HostOpening#rejoin}. */
  void readmit() {
    try (Reunion reunion =
        Reunion.withNewcomers(
            context.group, context.members, context.config, context.nodes, words())) {
      memory.symmetric().readmit(reunion.meeting(), timeout);
      boolean left = leaveMemoryWithNewcomers(reunion);
      for (int r = 0; r < context.ranks; r++) {
        if (reunion.meeting().isNew(r)) {
          context.members.take(r);
          lowLatency.takeIn(r);
        }
      }
      beginAnew(reunion, left ? SETTLED : EXPOSED);
      lowLatency.agreed();
    }
  }

  private long[] words() {
    return new long[] {context.epoch, lowLatency.number(), state};
  }

  /** The last step of a rank that comes back. */
  void rejoin(Reunion reunion) {
    leaveMemoryWithNewcomers(reunion);
    beginAnew(reunion, SETTLED);
    lowLatency.agreed();
  }

  /**
   * Where a rank of this node has been lost since the last time, the others go on in other memory:
   * it may only have been stopped, and be about to write its rows.
   */
  private void leaveMemoryToLost(Reunion reunion) {
    boolean[] gone = reunion.gone();
    boolean lost = reunion.highest(MEMORY) > SETTLED;
    boolean here = lost;
    for (int r = 0; r < context.ranks; r++) {
      boolean since = gone[r] && !context.excluded[r];
      lost |= since;
      here |= since && context.near(r);
    }
    if (lost) {
      leaveMemory(reunion, here);
    }
  }

  /**
   * The same when ranks come back and others are still gone. Where nobody is, the memory is kept: a
   * newcomer that dies on the way takes nothing from the others then.
   *
   * @return whether the memory of this node has been left; newcomers come to the same answer
   */
  private boolean leaveMemoryWithNewcomers(Reunion reunion) {
    boolean[] gone = reunion.gone();
    boolean lost = reunion.highest(MEMORY) == UNSETTLED;
    boolean here = lost;
    for (int r = 0; r < context.ranks; r++) {
      lost |= gone[r];
      here |= gone[r] && context.near(r);
    }
    if (lost) {
      leaveMemory(reunion, here);
    }
    return here;
  }

  /**
   * Collective among all that meet.
   *
   * @param here whether the ranks of this node do so
   */
  private void leaveMemory(Reunion reunion, boolean here) {
    state = UNSETTLED;
    boolean done = false;
    try {
      if (here) {
        context.leaveBehind();
      }
      memory.symmetric().leave(reunion.meeting(), here, timeout);
      if (here) {
        lowLatency.renewed();
      }
      done = true;
    } finally {
      if (!done) {
        context.needsReset("memory could not be left to the ranks that were lost");
      }
    }
  }

  /**
   * @param then the state of memory when all have done so
   */
  private void beginAnew(Reunion reunion, long then) {
    boolean[] gone = reunion.gone();
    System.arraycopy(gone, 0, context.excluded, 0, gone.length);
    Group live = reunion.live();
    boolean connected = false;
    try {
      if (connector.reconnect(live, reunion.meeting().numbers())) {
        reunion.keep();
      }
      connected = true;
    } finally {
      if (!connected) {
        context.needsReset("its connection with other nodes could not be made anew");
      }
    }
    try {
      context.restart(reunion.highest(EPOCH) + 1);
      lowLatency.reset(reunion.highest(LOW_LATENCY));
    } catch (InternalError e) {
      context.needsReset("no page of memory for its words");
      throw HostContext.outOfPages("reset", e);
    }
    // Nobody begins an operation before all have left the old epochs behind.
    live.barrier(timeout);
    state = then;
  }
}
