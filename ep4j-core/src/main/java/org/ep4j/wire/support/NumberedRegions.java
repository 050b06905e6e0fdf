package org.ep4j.wire.support;

import java.util.Arrays;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * The exposed regions of a wire, by the numbers by which peers name them: all ranks expose regions
 * in the same order, so a region has the same number everywhere, and none is given again. Regions
 * come and go under a lock; the table is replaced as a whole, so that strands look without one.
 *
 * @param <R> regions of the wire
 */
public final class NumberedRegions<R extends GroupRegion> {
  private volatile @Nullable GroupRegion[] all = {};

  /** An empty table. */
  public NumberedRegions() {}

  /** Adds what is made for the next number. */
  public synchronized R add(IntFunction<R> making) {
    @Nullable GroupRegion[] before = all;
    R region = making.apply(before.length);
    @Nullable GroupRegion[] after = Arrays.copyOf(before, before.length + 1);
    after[before.length] = region;
    all = after;
    return region;
  }

  /** Takes a region out: who names it finds nothing from here on. */
  public synchronized void remove(int number) {
    @Nullable GroupRegion[] after = all.clone();
    after[number] = null;
    all = after;
  }

  /** The region that a peer has named; null if there is none. */
  @SuppressWarnings("unchecked") // Only add() puts regions there.
  public @Nullable R get(int number) {
    @Nullable GroupRegion[] now = all;
    return number >= 0 && number < now.length ? (R) now[number] : null;
  }
}
