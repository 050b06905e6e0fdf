package org.ep4j.engine.host.internode;

import java.util.Arrays;
import org.ep4j.wire.Lane;

/**
 * Counts that a rank has not been told yet: a masked rank that is alive, but outside of ep4j, takes
 * nothing from its lane, and must neither hold up the others nor miss a count. Additions to one
 * counter are one sum; sums are sent in the order in which their counters came first.
 */
final class OwedCounts {
  private int[] counters = new int[0];
  private long[] sums = new long[0];
  private int size;

  /** Adds to what a counter is owed. */
  void owe(int counter, long value) {
    for (int i = 0; i < size; i++) {
      if (counters[i] == counter) {
        sums[i] += value;
        return;
      }
    }
    if (size == counters.length) {
      counters = Arrays.copyOf(counters, size + 4);
      sums = Arrays.copyOf(sums, size + 4);
    }
    counters[size] = counter;
    sums[size] = value;
    size++;
  }

  /** Sends what the lane accepts; whether nothing is owed any more. A failed lane takes all. */
  boolean pay(Lane lane) {
    int paid = 0;
    while (paid < size && lane.add(counters[paid], sums[paid]) != Lane.BACK_PRESSURED) {
      paid++;
    }
    if (paid > 0) {
      System.arraycopy(counters, paid, counters, 0, size - paid);
      System.arraycopy(sums, paid, sums, 0, size - paid);
      size -= paid;
    }
    return size == 0;
  }
}
