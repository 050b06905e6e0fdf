package org.ep4j.engine.host.exec;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Units of work in the order in which one thread submits them; any thread takes them.
 *
 * <p>Protocol. Unit n is at index n mod length. The submitting thread stores it and then raises
 * {@link #given} (volatile), so a thread that observes the new value sees the unit and all earlier
 * writes. A thread owns unit n once it has raised {@link #taken} from n (compare and set). The
 * submitting thread reuses an index only once {@link #taken} has passed n: a thread that has read
 * the new unit cannot take it as unit n.
 */
final class UnitRing {
  private final WorkQueue.Unit[] units;
  private volatile long given;
  private final AtomicLong taken = new AtomicLong();

  UnitRing(int length) {
    units = new WorkQueue.Unit[Math.max(1, length)];
  }

  /** Discards untaken units; no other thread may use the ring. */
  void clear() {
    given = 0;
    taken.set(0);
  }

  /**
   * Submits a unit; on one thread only.
   *
   * @throws IllegalStateException if the ring is full
   */
  void give(WorkQueue.Unit unit) {
    long number = given;
    if (number - taken.get() == units.length) {
      throw new IllegalStateException("more than " + units.length + " units");
    }
    units[(int) (number % units.length)] = unit;
    given = number + 1;
  }

  /** The oldest unit; null if there is none. */
  WorkQueue.@Nullable Unit take() {
    while (true) {
      long number = taken.get();
      if (number == given) {
        return null;
      }
      WorkQueue.Unit unit = units[(int) (number % units.length)];
      if (taken.compareAndSet(number, number + 1)) {
        return unit;
      }
    }
  }
}
