package org.ep4j.engine.host.combine;

import org.ep4j.memory.NonTemporalCopy;

/**
 * Chooses how a rank writes sums that exceed the cache: with non-temporal stores, block by block,
 * or with ordinary ones. Which is faster depends on the processor and on what the other ranks do:
 * the first reads no line that it overwrites, the second overlaps reading and writing. So the first
 * sums are written in both ways by turns, then the faster way is preferred, and now and then the
 * other one gets another trial: other programs disturb some of them. At last the faster way
 * remains. Both have the same bits. Used by one thread.
 */
public final class SumStores {
  /** Sums at the start that are not compared: their code may not be compiled yet. */
  static final int COLD = 6;

  /** Sums by turns, the first of them cold. */
  static final int ALTERNATING = COLD + 12;

  /**
   * After them every one of so many sums is a trial of the other way. A prime: callers may combine
   * different shapes by turns, and then each shape gets trials.
   */
  static final int RARE = 17;

  /** Sums until the choice is final. */
  static final int LAST = 512;

  private static final long UNIT = 1 << 20;

  /** Whether the user has chosen. */
  private final boolean forced;

  private int sums;

  /** The least nanoseconds for {@link #UNIT} bytes, of ordinary and of non-temporal stores. */
  private final double[] least = {Double.POSITIVE_INFINITY, Double.POSITIVE_INFINITY};

  /** A choice of its own. */
  public SumStores() {
    this(Boolean.getBoolean(NonTemporalCopy.PROPERTY));
  }

  SumStores(boolean forced) {
    this.forced = forced;
  }

  /** Whether the next sums are written with non-temporal stores. */
  public boolean streams() {
    if (forced) {
      return true;
    }
    if (sums < ALTERNATING) {
      return sums % 2 == 1;
    }
    boolean trial = sums < LAST && sums % RARE == 0;
    return least[1] < least[0] != trial;
  }

  /**
   * Sums have been written as {@link #streams} said.
   *
   * @param bytes read and written
   */
  public void took(long nanos, long bytes) {
    if (sums == LAST) {
      return;
    }
    int kind = streams() ? 1 : 0;
    if (sums >= COLD) {
      least[kind] = Math.min(least[kind], (double) nanos * UNIT / Math.max(1, bytes));
    }
    sums++;
  }
}
