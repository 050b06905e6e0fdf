package org.ep4j.engine.host;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Units of work that the caller of an operation gives out while it drives the wire, and that the
 * helpers of its team do meanwhile: urgent ones first, those of a kind begun in the order in which
 * they were given. A helper never waits for the caller between two units, who may be in the middle
 * of some megabytes of a socket; where helpers are few the caller does units, too, one at a time.
 *
 * <p>Protocol. Only the caller gives. It fills in a unit and puts it into a {@link UnitRing};
 * whoever takes it from there has it alone, does it, and sets {@link Unit#done} (volatile); from
 * then on the unit and what it has written are the caller's. Helpers look for units from {@link
 * #open} on until {@link #ended}, which the caller sets in {@link #close} or {@link #abandon}; both
 * return when no unit is being done.
 */
final class WorkQueue implements WorkerTeam.Task {
  /** A team of so many can do without the caller. */
  static final int WITHOUT_CALLER = 3;

  /** Something that one worker does. Its fields are the caller's, but from give to done. */
  abstract static class Unit {
    private volatile boolean done;

    /** Does it, as worker {@code worker} of the team. */
    abstract void run(int worker);

    /** Whether it has been done since it was given last. */
    final boolean done() {
      return done;
    }
  }

  private final WorkerTeam team;
  private final IntConsumer relax;
  private final UnitRing urgent;
  private final UnitRing rest;

  /** Units that have been given; the caller's. */
  private long given;

  private final AtomicLong finished = new AtomicLong();
  private volatile boolean ended;
  private volatile boolean failed;

  /**
   * @param relax lets a moment pass; gets the number of such moments, one after the other
   * @param urgent urgent units that wait at most at a time
   * @param rest others that wait at most
   */
  WorkQueue(WorkerTeam team, IntConsumer relax, int urgent, int rest) {
    this.team = team;
    this.relax = relax;
    this.urgent = new UnitRing(urgent);
    this.rest = new UnitRing(rest);
  }

  /** The helpers begin to look for units. */
  void open() {
    urgent.clear();
    rest.clear();
    given = 0;
    finished.set(0);
    ended = false;
    failed = false;
    team.start(this);
  }

  /** Gives a unit that is to be done before those of the other kind. */
  void giveUrgent(Unit unit) {
    give(urgent, unit);
  }

  /** Gives a unit. */
  void give(Unit unit) {
    give(rest, unit);
  }

  private void give(UnitRing ring, Unit unit) {
    unit.done = false;
    given++;
    ring.give(unit);
  }

  /** Does a unit on the caller's thread where helpers are few; whether it did. */
  boolean help() {
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
   * Whether units are given that are not done yet.
   *
   * @throws RuntimeException what a unit has thrown
   * @throws Error what a unit has thrown
   */
  boolean busy() {
    if (failed) {
      close();
    }
    return finished.get() != given;
  }

  /** Waits until the helpers look for units no more; throws what a unit has thrown. */
  void close() {
    ended = true;
    team.finish();
  }

  /** The same, however units have ended; those that nobody has begun are not done. */
  void abandon() {
    ended = true;
    team.abandon();
  }

  @Override
  public void run(int worker, int workers) {
    int idle = 0;
    while (!ended) {
      Unit unit = take();
      if (unit != null) {
        execute(unit, worker);
        idle = 0;
      } else {
        // The caller ends this, and has a deadline for what it waits for.
        relax.accept(++idle);
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
