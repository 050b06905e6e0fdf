package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.far.InternodeConnection;

/**
 * What low-latency kernels know where a wire carries rows to other nodes, on the device: {@code
 * LowLatencyPuts} of {@code kernels/low_latency_puts.cuh}, and behind it what counters were when
 * numbers began.
 */
final class LowLatencyPuts implements AutoCloseable {
  /** Counters that each rank has of each rank. */
  private static final int COUNTERS = 5;

  /** What all rows of an operation together let their counter grow by: {@code ALL_ROWS}. */
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
   * Numbers go on behind one that no rank has used, and all counters are 0: as if they had grown by
   * all operations up to it before.
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

  /** Counters of a rank of so many. */
  static int counters(int ranks) {
    return ranks * COUNTERS;
  }

  /** Where kernels find it. */
  long address() {
    return memory.address();
  }

  @Override
  public void close() {
    memory.close();
  }
}
