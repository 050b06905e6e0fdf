package org.ep4j.engine.host.dispatch;

import java.util.Arrays;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Ensures that pages of shared memory exist before native code writes them. If a full file system
 * cannot provide a page, an access from Java code throws an exception, but an access from native
 * code ends the process. Touched pages stay.
 */
final class PresentPages {
  private static final long PAGE = 4096;

  /** Per rank, the addresses that are known to be present: from (inclusive), to (exclusive). */
  private final long[] from;

  private final long[] to;

  /** For the ranks of a buffer; null if all memory belongs to this process. */
  static @Nullable PresentPages of(HostContext context) {
    return context.memory.sameAddressSpace() ? null : new PresentPages(context.ranks);
  }

  PresentPages(int ranks) {
    from = new long[ranks];
    to = new long[ranks];
    forget();
  }

  /** Forgets all pages: a rank may have new memory. */
  void forget() {
    Arrays.fill(from, Long.MAX_VALUE);
    Arrays.fill(to, 0);
  }

  /**
   * Touches the untouched pages of {@code rank}'s memory from {@code start} to {@code end}.
   *
   * @throws InternalError if the system cannot provide a page
   */
  void require(int rank, long start, long end) {
    if (start < from[rank] || end > to[rank]) {
      for (long at = start & -PAGE; at < end; at += PAGE) {
        // With acquire order: the compiler may remove an unused plain load.
        NativeMemory.getLongAcquire(at);
      }
      // Slots start at the same address in each operation, so the ranges nearly always overlap.
      boolean joined = start <= to[rank] && end >= from[rank];
      from[rank] = joined ? Math.min(start, from[rank]) : start;
      to[rank] = joined ? Math.max(end, to[rank]) : end;
    }
  }
}
