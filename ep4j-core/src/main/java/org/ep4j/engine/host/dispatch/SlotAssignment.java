package org.ep4j.engine.host.dispatch;

import java.util.Arrays;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.CountsLayout;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * Computes slots from the counts of all ranks: prefix sums in order of (source rank, source token),
 * the same on every rank.
 */
public final class SlotAssignment {
  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ExpertTable table;

  /** Row capacity of each rank's region; 0 for a dead rank. */
  private final long[] limit;

  /** Rows routed to each rank, EXPERT_MAJOR with padding. */
  private final long[] needed;

  /** FLAT: first slot of this rank's rows at each rank. */
  private final long[] baseOfRank;

  /** EXPERT_MAJOR: first slot of this rank's rows in each expert's group. */
  private final long[] baseOfPosition;

  private final int[] total;

  public SlotAssignment(HostContext context, HighThroughputLayout layout, ExpertTable table) {
    this.context = context;
    this.layout = layout;
    this.table = table;
    int experts = table.rankOf.length;
    limit = new long[context.ranks];
    needed = new long[context.ranks];
    baseOfRank = new long[context.ranks];
    baseOfPosition = new long[experts];
    total = new int[experts];
  }

  /** Writes this rank's counts for the peers to read. */
  public void publish(RoutingScan routes, long rowLimit) {
    long counts = counts(context.rank);
    NativeMemory.putLong(counts + CountsLayout.LIMIT, rowLimit);
    for (int r = 0; r < context.ranks; r++) {
      NativeMemory.putInt(counts + CountsLayout.PER_RANK + 4L * r, routes.perRank[r]);
    }
    long perExpert = counts + layout.countsLayout.perExpert;
    for (int p = 0; p < total.length; p++) {
      NativeMemory.putInt(perExpert + 4L * p, routes.perPosition[p]);
    }
    context.mirror(
        context.highThroughputOffset + layout.counts,
        layout.countsLayout.perExpert + 4L * total.length);
  }

  /** Reads the counts of all ranks, and fills in the handle's fields about this rank's region. */
  void compute(HostHandle handle) {
    for (int r = 0; r < context.ranks; r++) {
      limit[r] = context.excluded[r] ? 0 : NativeMemory.getLong(counts(r) + CountsLayout.LIMIT);
    }
    if (handle.layout == Layout.FLAT) {
      computeFlat(handle);
    } else {
      computeExpertMajor(handle);
    }
    handle.limit = limit[context.rank];
    handle.neededRows = needed[context.rank];
    long rows = 0;
    for (int l = 0; l < handle.received.length; l++) {
      handle.received[l] = total[table.first[context.rank] + l];
      handle.aligned[l] = Math.toIntExact(aligned(handle.received[l], handle.alignment));
      rows += handle.received[l];
    }
    handle.receivedRows = handle.layout == Layout.FLAT ? handle.neededRows : rows;
  }

  private void computeFlat(HostHandle handle) {
    int own = table.first[context.rank];
    int ownEnd = table.first[context.rank + 1];
    Arrays.fill(needed, 0);
    Arrays.fill(total, own, ownEnd, 0);
    for (int s = 0; s < context.ranks; s++) {
      if (s == context.rank) {
        System.arraycopy(needed, 0, baseOfRank, 0, needed.length);
      }
      handle.rankOffsets[s] = needed[context.rank];
      if (!context.excluded[s]) {
        long counts = counts(s);
        for (int r = 0; r < needed.length; r++) {
          needed[r] += NativeMemory.getInt(counts + CountsLayout.PER_RANK + 4L * r);
        }
        addExperts(counts, own, ownEnd);
      }
    }
    handle.rankOffsets[context.ranks] = needed[context.rank];
  }

  private void computeExpertMajor(HostHandle handle) {
    Arrays.fill(total, 0);
    for (int s = 0; s < context.ranks; s++) {
      if (s == context.rank) {
        for (int p = 0; p < total.length; p++) {
          baseOfPosition[p] = total[p];
        }
      }
      if (!context.excluded[s]) {
        addExperts(counts(s), 0, total.length);
      }
    }
    for (int r = 0; r < context.ranks; r++) {
      int first = table.first[r];
      long row = 0;
      for (int p = first; p < table.first[r + 1]; p++) {
        if (r == context.rank) {
          handle.expertOffsets[p - first] = row;
        }
        baseOfPosition[p] += row;
        row += aligned(total[p], handle.alignment);
      }
      needed[r] = row;
    }
    handle.expertOffsets[handle.received.length] = needed[context.rank];
  }

  private void addExperts(long counts, int from, int to) {
    long perExpert = counts + layout.countsLayout.perExpert;
    for (int p = from; p < to; p++) {
      total[p] += NativeMemory.getInt(perExpert + 4L * p);
    }
  }

  /**
   * The live rank that needs the most rows of those whose regions are too small, or null: the same
   * on all ranks. Its need suffices for all.
   */
  @Nullable ReceiveOverflowException overflow() {
    int neediest = -1;
    for (int r = 0; r < context.ranks; r++) {
      if (!context.excluded[r]
          && needed[r] > limit[r]
          && (neediest < 0 || needed[r] > needed[neediest])) {
        neediest = r;
      }
    }
    return neediest < 0
        ? null
        : new ReceiveOverflowException(neediest, needed[neediest], limit[neediest]);
  }

  /**
   * Makes the relative slots of the handle's routes absolute, and removes the routes that have no
   * slot: the routes of a token to a node stay without a gap.
   */
  void resolve(HostHandle handle, int[] positions) {
    boolean flat = handle.layout == Layout.FLAT;
    long[] routes = handle.routes;
    int[] start = handle.start;
    int end = 0;
    int i = 0;
    for (int t = 0; t < handle.tokens; t++) {
      start[t] = end;
      for (int behind = start[t + 1]; i < behind; i++) {
        long route = routes[i];
        int rank = RowTarget.rank(route);
        long base = flat ? baseOfRank[rank] : baseOfPosition[positions[i]];
        long slot = RowTarget.slot(route) + base;
        if (slot < limit[rank]) {
          routes[end++] = RowTarget.pack(rank, RowTarget.choice(route), (int) slot);
        }
      }
    }
    start[handle.tokens] = end;
    handle.rowsSent = end;
  }

  private long counts(int rank) {
    return context.highThroughput(rank) + layout.counts;
  }

  private static long aligned(long count, int alignment) {
    return (count + alignment - 1) / alignment * alignment;
  }
}
