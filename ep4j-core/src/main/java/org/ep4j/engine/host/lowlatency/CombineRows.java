package org.ep4j.engine.host.lowlatency;

import java.util.Arrays;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Memory for the rows that callers write into a combine region, which experts in native code can
 * then do without a fault. The region has the padded shape, and only rows that have arrived need
 * memory.
 */
final class CombineRows {
  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencyMemory memory;

  /** Offset of the low-latency part in the region of this rank. */
  private final long partOffset;

  /** Per half and expert, the rows that have memory; by ranks, per half and source rank. */
  private final long[][] byExperts;

  private final long[][] byRanks;

  /** Per half, the elements of the rows that these numbers count. */
  private final int[] hidden = new int[2];

  CombineRows(HostContext context, LowLatencyLayout layout, LowLatencyMemory memory, int experts) {
    this.context = context;
    this.layout = layout;
    this.memory = memory;
    partOffset = context.lowLatency(context.rank) - context.memory.address(context.rank);
    byExperts = new long[2][experts];
    byRanks = new long[2][context.ranks];
  }

  /** Forgets all rows: the region has new memory. */
  void forget() {
    forget(0);
    forget(1);
  }

  private void forget(int half) {
    Arrays.fill(byExperts[half], 0);
    Arrays.fill(byRanks[half], 0);
  }

  /**
   * Ensures that the rows of a dispatch have memory; all rows if it has not been received, because
   * their number is unknown.
   *
   * @throws org.ep4j.error.Ep4jException if the system has no memory left
   */
  void require(LowLatencyDispatchOperation dispatch) {
    int half = dispatch.flight.half();
    boolean unknown = dispatch.flight.awaitsHook();
    if (hidden[half] != dispatch.record.hidden) {
      // Rows of another length lie elsewhere.
      forget(half);
      hidden[half] = dispatch.record.hidden;
    }
    if (dispatch.record.byRanks) {
      for (int r = 0; r < context.ranks; r++) {
        long rows = unknown ? memory.rowsPerRank() : dispatch.record.received[r];
        require(byRanks[half], half, r, memory.rowsPerRank(), rows);
      }
    } else {
      for (int e = 0; e < dispatch.record.localExperts; e++) {
        long rows =
            unknown
                ? memory.rowsPerExpert()
                : NativeMemory.getInt(memory.half(half).rowCounts() + 4L * e);
        require(byExperts[half], half, e, memory.rowsPerExpert(), rows);
      }
    }
  }

  private void require(long[] present, int half, int group, long capacity, long rows) {
    if (rows > present[group]) {
      long rowBytes = 2L * hidden[half];
      long start = partOffset + layout.combine(half) + group * capacity * rowBytes;
      context.memory.require(start, start + rows * rowBytes);
      present[group] = rows;
    }
  }
}
