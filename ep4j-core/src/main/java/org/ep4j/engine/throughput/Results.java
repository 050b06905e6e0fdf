package org.ep4j.engine.throughput;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * The result objects of one kind, used in turn: a result is outdated for at least three operations
 * before its object shows another one. Used by the thread in the buffer.
 *
 * @param <R> the kind of result
 */
public final class Results<R extends LentResult<?>> {
  private static final int COUNT = 4;

  private final LentResult.Lifetime lifetime;
  private final Supplier<R> maker;
  private final List<R> results = new ArrayList<>(COUNT);

  /**
   * Makes the objects.
   *
   * @param lifetime shared by all kinds that outdate each other
   */
  public Results(LentResult.Lifetime lifetime, Supplier<R> maker) {
    this.lifetime = lifetime;
    this.maker = maker;
    for (int i = 0; i < COUNT; i++) {
      results.add(maker.get());
    }
  }

  /**
   * Outdates all results and begins the next.
   *
   * @param captured whether a graph keeps the result: then its object is not used again
   */
  public R next(boolean captured) {
    long number = lifetime.next();
    int place = (int) (number % COUNT);
    R result = results.get(place);
    if (captured) {
      results.set(place, maker.get());
    }
    result.begin(number, captured);
    return result;
  }
}
