package org.ep4j.wire.support;

import java.util.Arrays;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * The exposed regions of a wire, by the numbers that peers use: all ranks expose regions in the
 * same order, so a region has the same number everywhere, and no number is reused. A lock protects
 * changes; the table is replaced as a whole, so progress contexts read it without a lock.
 *
 * @param <R> regions of the wire
 */
public final class NumberedRegions<R extends GroupRegion> {
  private volatile @Nullable GroupRegion[] all = {};

  /** An empty table. */
  public NumberedRegions() {}

  /** Adds the region that {@code making} returns for the next number. */
  public synchronized R add(IntFunction<R> making) {
    @Nullable GroupRegion[] before = all;
    R region = making.apply(before.length);
    @Nullable GroupRegion[] after = Arrays.copyOf(before, before.length + 1);
    after[before.length] = region;
    all = after;
    return region;
  }

  /** Removes a region: later look-ups of its number find nothing. */
  public synchronized void remove(int number) {
    @Nullable GroupRegion[] after = all.clone();
    after[number] = null;
    all = after;
  }

  /** The region with a number; null if there is none. */
  @SuppressWarnings("unchecked") // Only add() puts regions there.
  public @Nullable R get(int number) {
    @Nullable GroupRegion[] now = all;
    return number >= 0 && number < now.length ? (R) now[number] : null;
  }
}
