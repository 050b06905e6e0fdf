package org.ep4j.cuda.engine.lowlatency;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.engine.launch.LowLatencyPutsField;
import org.ep4j.cuda.internode.InternodeConnection;

/**
 * Device state of low-latency kernels if a wire transports rows to other nodes: {@code
 * LowLatencyPuts} of {@code kernels/lowlatency/low_latency_puts.cuh}, followed by the counter
 * values at the start of numbering.
 */
public final class LowLatencyPuts implements AutoCloseable {
  /** Counters of each pair of ranks. */
  private static final int COUNTERS = 5;

  /** Increment of the counter by all rows of an operation together: {@code ALL_ROWS}. */
  private static final long ALL_ROWS = 1L << 32;

  private final DeviceMemory memory;
  private final int ranks;

  LowLatencyPuts(
      CudaDevice device, InternodeConnection internode, LowLatencyLayout layout, int ranks) {
    this.ranks = ranks;
    int fields = LowLatencyPutsField.values().length;
    long[] image = new long[fields + counters(ranks)];
    memory = DeviceMemory.allocate(device, (long) image.length * Long.BYTES);
    int first = internode.firstLowLatencyCounter();
    image[LowLatencyPutsField.WORLD.ordinal()] = internode.world();
    image[LowLatencyPutsField.STAGING.ordinal()] = internode.lowLatencyStaging();
    image[LowLatencyPutsField.STAGING_SOURCE.ordinal()] = internode.lowLatencySource();
    image[LowLatencyPutsField.HALF_BYTES.ordinal()] = layout.halfBytes;
    image[LowLatencyPutsField.ROWS_OFFSET.ordinal()] = layout.sourceBytes;
    image[LowLatencyPutsField.TARGET.ordinal()] = internode.lowLatencyTarget();
    image[LowLatencyPutsField.COUNTERS.ordinal()] =
        internode.counters() + (long) first * Long.BYTES;
    image[LowLatencyPutsField.BASE.ordinal()] = memory.address() + (long) fields * Long.BYTES;
    image[LowLatencyPutsField.FIRST_COUNTER.ordinal()] = first;
    boolean complete = false;
    try {
      memory.copyFrom(0, MemorySegment.ofArray(image));
      complete = true;
    } finally {
      if (!complete) {
        memory.close();
      }
    }
  }

  /**
   * Resumes after a number that no rank has used; all counters are 0, as if all operations up to
   * that number had already incremented them.
   */
  void resumeAfter(long number) {
    long odd = (number + 1) / 2;
    long even = number / 2;
    long[] base = new long[counters(ranks)];
    for (int r = 0; r < ranks; r++) {
      long[] grown = {even, odd, even * ALL_ROWS, odd * ALL_ROWS, number};
      for (int i = 0; i < COUNTERS; i++) {
        base[r * COUNTERS + i] = -grown[i];
      }
    }
    memory.copyFrom(
        (long) LowLatencyPutsField.values().length * Long.BYTES, MemorySegment.ofArray(base));
  }

  /** Number of counters of a rank. */
  public static int counters(int ranks) {
    return ranks * COUNTERS;
  }

  /** Device address. */
  long address() {
    return memory.address();
  }

  @Override
  public void close() {
    memory.close();
  }
}
