package org.ep4j.engine.host.exec;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Units of work that the caller of an operation submits while it drives the wire, and that the
 * helpers of its team run meanwhile: urgent units first, units of one kind in the order of
 * submission. A helper never waits for the caller between two units, because the caller may be
 * copying some megabytes of a socket. With few helpers the caller runs units too, one at a time.
 *
 * <p>Protocol. Only the caller submits. It fills a unit and puts it into a {@link UnitRing}; a
 * thread that takes the unit owns it, runs it, and sets {@link Unit#done} (volatile); then the unit
 * and its results belong to the caller. Helpers look for units from {@link #open} until {@link
 * #ended}, which the caller sets in {@link #close} or {@link #abandon}; both return when no unit is
 * running.
 */
public final class WorkQueue implements WorkerTeam.Task {
  /** A team of this size works without the caller. */
  static final int WITHOUT_CALLER = 3;

  /** Work for one worker. The caller owns its fields, except between submission and done. */
  public abstract static class Unit {
    private volatile boolean done;

    /** Runs the unit as worker {@code worker} of the team. */
    public abstract void run(int worker);

    /** Whether the unit has run since its last submission. */
    public final boolean done() {
      return done;
    }
  }

  /** Waits a short time. */
  @FunctionalInterface
  public interface Relax {
    /**
     * One round of a wait.
     *
     * @param round from 1
     * @param begin time of the first round, as {@link System#nanoTime}
     */
    void once(int round, long begin);
  }

  private final WorkerTeam team;
  private final Relax relax;
  private final UnitRing urgent;
  private final UnitRing rest;

  /** Number of submitted units; owned by the caller. */
  private long given;

  private final AtomicLong finished = new AtomicLong();
  private volatile boolean ended;
  private volatile boolean failed;

  /**
   * @param relax waits for units
   * @param urgent maximum number of waiting urgent units
   * @param rest maximum number of other waiting units
   */
  public WorkQueue(WorkerTeam team, Relax relax, int urgent, int rest) {
    this.team = team;
    this.relax = relax;
    this.urgent = new UnitRing(urgent);
    this.rest = new UnitRing(rest);
  }

  /** Makes the helpers look for units. */
  public void open() {
    urgent.clear();
    rest.clear();
    given = 0;
    finished.set(0);
    ended = false;
    failed = false;
    team.start(this);
  }

  /** Submits a unit that runs before those of the other kind. */
  public void giveUrgent(Unit unit) {
    give(urgent, unit);
  }

  /** Submits a unit. */
  public void give(Unit unit) {
    give(rest, unit);
  }

  private void give(UnitRing ring, Unit unit) {
    unit.done = false;
    given++;
    ring.give(unit);
  }

  /** Runs a unit on the caller's thread if there are few helpers; returns whether it did. */
  public boolean help() {
    if (team.size() >= WITHOUT_CALLER) {
      return false;
    }
    Unit unit = take();
    if (unit == null) {
      return false;
    }
    execute(unit, 0);
    return true;
  }

  /**
   * Whether submitted units are unfinished.
   *
   * @throws RuntimeException thrown by a unit
   * @throws Error thrown by a unit
   */
  public boolean busy() {
    if (failed) {
      close();
    }
    return finished.get() != given;
  }

  /** Waits until the helpers have stopped looking for units; throws the exception of a unit. */
  public void close() {
    ended = true;
    team.finish();
  }

  /** The same without exceptions; units that have not begun do not run. */
  public void abandon() {
    ended = true;
    team.abandon();
  }

  @Override
  public void run(int worker, int workers) {
    int idle = 0;
    long since = 0;
    while (!ended) {
      Unit unit = take();
      if (unit != null) {
        execute(unit, worker);
        idle = 0;
      } else {
        // The caller ends this loop, and has deadlines of its own.
        since = idle == 0 ? System.nanoTime() : since;
        relax.once(++idle, since);
      }
    }
  }

  private @Nullable Unit take() {
    Unit unit = urgent.take();
    return unit == null ? rest.take() : unit;
  }

  private void execute(Unit unit, int worker) {
    boolean complete = false;
    try {
      unit.run(worker);
      complete = true;
    } finally {
      if (!complete) {
        failed = true;
      }
    }
    unit.done = true;
    finished.incrementAndGet();
  }
}
