package org.ep4j.engine.host.context;

import org.ep4j.engine.host.exec.WorkQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;

/**
 * The internode part of an operation on one rank. The caller drives the wire and submits arriving
 * data as units of work to the workers; with few workers, the caller runs one unit between two
 * polls of the wire.
 */
public abstract class Exchange {
  public final HostContext context;
  public final ScaleOut connection;
  public final WorkerTeam team;
  private final WorkQueue work;
  private final MissingParts missing;

  /**
   * @param urgent maximum number of urgent units in progress
   * @param rest maximum number of other units in progress
   */
  public Exchange(HostContext context, ScaleOut connection, WorkerTeam team, int urgent, int rest) {
    this.context = context;
    this.connection = connection;
    this.team = team;
    missing = new MissingParts(context.ranks);
    work = new WorkQueue(team, context.wait::relax, urgent, rest);
  }

  /** Prepares an operation. */
  public abstract void begin(HostHandle handle);

  /**
   * Polls the wire and submits units to the workers while there are any; returns whether it did
   * either.
   */
  public abstract boolean move(HostHandle handle, long epoch, WorkQueue work);

  /** Whether all units have been submitted and the wire has accepted all data. */
  public abstract boolean done(HostHandle handle);

  /** Adds the ranks whose parts are missing, while this rank has no work. */
  public abstract void missing(MissingParts parts);

  /** Runs the exchange; every rank is in the same operation. */
  public final void run(HostHandle handle, String operation) {
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
    long since = 0;
    int relaxed = 0;
    while (work.busy() || !done(handle)) {
      boolean moved = move(handle, epoch, work);
      moved |= work.help();
      // Wait for peers only when this rank has no work.
      if (moved) {
        if (idle > 0) {
          missing.charge(context.log, System.nanoTime() - begin);
        }
        idle = 0;
        relaxed = 0;
      } else if (work.busy()) {
        idle = 0;
        since = relaxed == 0 ? PeerWait.begin() : since;
        context.wait.relax(++relaxed, since);
      } else {
        if (idle == 0) {
          begin = PeerWait.begin();
          missing.clear();
          missing(missing);
        }
        missing.pause(context.wait, ++idle, begin, operation, epoch);
      }
    }
  }
}
