package org.ep4j.engine.host;

/**
 * The part of an operation that crosses between nodes, on one rank. The caller drives the wire,
 * beside a team that is large enough to work without it, else in turns: one thing after the other
 * is given to the team, and the wire has its turn in between.
 */
abstract class Exchange {
  final HostContext context;
  final ScaleOut connection;
  final WorkerTeam team;

  /** Whether the team is at something. */
  private boolean working;

  Exchange(HostContext context, ScaleOut connection, WorkerTeam team) {
    this.context = context;
    this.connection = connection;
    this.team = team;
  }

  /** Makes ready for an operation. */
  abstract void begin(HostHandle handle);

  /** Gives the wire its turn; whether anything moved. */
  abstract boolean move(HostHandle handle, long epoch);

  /** Starts something on the team, which is at nothing; whether there was something to start. */
  abstract boolean start(HostHandle handle, long epoch);

  /** The team has done what was started last. */
  abstract void finished();

  /** Whether nothing is left to start, and all that goes to other nodes is with the wire. */
  abstract boolean done(HostHandle handle);

  /** Waits a moment for a rank whose part is missing; arguments as of {@link PeerWait#idle}. */
  abstract void pause(int round, long begin, String operation, long epoch);

  /** Runs the exchange; every rank is in the same operation. */
  final void run(HostHandle handle, String operation) {
    begin(handle);
    working = false;
    boolean complete = false;
    try {
      exchange(handle, operation, context.epoch);
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
    while (working || !done(handle)) {
      boolean moved = move(handle, epoch);
      moved |= work(handle, epoch);
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
  private boolean work(HostHandle handle, long epoch) {
    boolean moved = finishWork();
    if (working) {
      return moved;
    }
    boolean began = start(handle, epoch);
    working = began;
    // A small team is done when it has begun.
    finishWork();
    return moved || began;
  }

  /** Whether the team was at something and has done it. */
  private boolean finishWork() {
    if (!working || team.busy()) {
      return false;
    }
    team.finish();
    finished();
    working = false;
    return true;
  }
}
