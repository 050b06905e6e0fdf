package org.ep4j.engine.host;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Units of work in the order in which one thread gives them; any thread takes them.
 *
 * <p>Protocol. Unit n lies at n mod length. The giver puts it there and raises {@link #given}
 * (volatile), so a taker that sees that sees the unit and what was written to it before. A taker
 * has unit n alone if it has raised {@link #taken} from n (compare and set). The giver puts another
 * unit in the same place only once {@link #taken} is past n: who has read that one cannot take it
 * for n.
 */
final class UnitRing {
  private final WorkQueue.Unit[] units;
  private volatile long given;
  private final AtomicLong taken = new AtomicLong();

  UnitRing(int length) {
    units = new WorkQueue.Unit[Math.max(1, length)];
  }

  /** Forgets what nobody has taken; nobody else is at the ring. */
  void clear() {
    given = 0;
    taken.set(0);
  }

  /**
   * Gives a unit; on one thread.
   *
   * @throws IllegalStateException if so many wait that there is no place
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
