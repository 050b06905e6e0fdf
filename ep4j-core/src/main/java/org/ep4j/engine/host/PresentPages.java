package org.ep4j.engine.host;

import java.util.Arrays;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Makes sure that pages of shared memory exist before native code writes them. A page that a full
 * file system cannot provide is an error that the JVM turns into an exception when Java code
 * touches it, and the end of the process when native code does. Touched pages stay.
 */
final class PresentPages {
  private static final long PAGE = 4096;

  /** Per rank, the addresses that are known to be present: from (inclusive), to (exclusive). */
  private final long[] from;

  private final long[] to;

  /** Those of a buffer's ranks; null where all memory is this process's own. */
  static @Nullable PresentPages of(HostContext context) {
    return context.memory.sameAddressSpace() ? null : new PresentPages(context.ranks);
  }

  PresentPages(int ranks) {
    from = new long[ranks];
    to = new long[ranks];
    forget();
  }

  /** Begins anew: a rank may have other memory now. */
  void forget() {
    Arrays.fill(from, Long.MAX_VALUE);
    Arrays.fill(to, 0);
  }

  /**
   * Touches the pages of {@code rank}'s memory from {@code start} to {@code end} that have not been
   * touched.
   *
   * @throws InternalError if a page cannot be provided
   */
  void require(int rank, long start, long end) {
    if (start < from[rank] || end > to[rank]) {
      for (long at = start & -PAGE; at < end; at += PAGE) {
        // With acquire order: a plain load of no use might be left out.
        NativeMemory.getLongAcquire(at);
      }
      // Slots start at the same place each time, so the ranges nearly always overlap.
      boolean joined = start <= to[rank] && end >= from[rank];
      from[rank] = joined ? Math.min(start, from[rank]) : start;
      to[rank] = joined ? Math.max(end, to[rank]) : end;
    }
  }
}
