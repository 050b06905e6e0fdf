package org.ep4j.engine.host;

/**
 * The part of an operation that crosses between nodes, on one rank. The caller drives the wire and
 * gives out what it brings as units of work, which helpers do meanwhile; where they are few, the
 * caller does a unit between two turns of the wire.
 */
abstract class Exchange {
  final HostContext context;
  final ScaleOut connection;
  final WorkerTeam team;
  private final WorkQueue work;

  /**
   * @param urgent urgent units at most at a time
   * @param rest others at most at a time
   */
  Exchange(HostContext context, ScaleOut connection, WorkerTeam team, int urgent, int rest) {
    this.context = context;
    this.connection = connection;
    this.team = team;
    work = new WorkQueue(team, context.wait::relax, urgent, rest);
  }

  /** Makes ready for an operation. */
  abstract void begin(HostHandle handle);

  /**
   * Gives the wire its turn, and units to the workers as far as there are any; whether there was
   * anything to do.
   */
  abstract boolean move(HostHandle handle, long epoch, WorkQueue work);

  /** Whether all units have been given, and all that goes to other nodes is with the wire. */
  abstract boolean done(HostHandle handle);

  /** Waits a moment for a rank whose part is missing; arguments as of {@link PeerWait#idle}. */
  abstract void pause(int round, long begin, String operation, long epoch);

  /** Runs the exchange; every rank is in the same operation. */
  final void run(HostHandle handle, String operation) {
    begin(handle);
    work.open();
    boolean complete = false;
    try {
      exchange(handle, operation, context.epoch);
      complete = true;
    } finally {
      if (!complete) {
        work.abandon();
      }
    }
    work.close();
  }

  private void exchange(HostHandle handle, String operation, long epoch) {
    long begin = 0;
    int idle = 0;
    int relaxed = 0;
    while (work.busy() || !done(handle)) {
      boolean moved = move(handle, epoch, work);
      moved |= work.help();
      // Peers are waited for only when this rank has nothing to do itself.
      if (moved) {
        idle = 0;
        relaxed = 0;
      } else if (work.busy()) {
        idle = 0;
        context.wait.relax(++relaxed);
      } else {
        begin = idle == 0 ? PeerWait.begin() : begin;
        pause(++idle, begin, operation, epoch);
      }
    }
  }
}
