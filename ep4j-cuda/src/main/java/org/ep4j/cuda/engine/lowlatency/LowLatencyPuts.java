package org.ep4j.cuda.engine.lowlatency;

import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.struct.LowLatencyPutParameters;

/**
 * Device state of low-latency kernels if a wire transports rows to other nodes: {@link
 * LowLatencyPutParameters}, followed by the counter values at the start of numbering.
 */
public final class LowLatencyPuts implements AutoCloseable {
  /** The counter values follow the parameters. */
  private static final int COUNTERS_OFFSET = new LowLatencyPutParameters().bytes();

  /** Counters of each pair of ranks. */
  private static final int COUNTERS = 5;

  /** Increment of the counter by all rows of an operation together: {@code ALL_ROWS}. */
  private static final long ALL_ROWS = 1L << 32;

  private final DeviceMemory memory;
  private final InternodeConnection internode;
  private final LowLatencyLayout layout;
  private final int ranks;

  LowLatencyPuts(
      CudaDevice device, InternodeConnection internode, LowLatencyLayout layout, int ranks) {
    this.internode = internode;
    this.layout = layout;
    this.ranks = ranks;
    memory = DeviceMemory.allocate(device, bytes(ranks));
    boolean complete = false;
    try {
      writeParameters();
      memory.copyFrom(COUNTERS_OFFSET, MemorySegment.ofArray(new long[counters(ranks)]));
      complete = true;
    } finally {
      if (!complete) {
        memory.close();
      }
    }
  }

  /** Writes the parameters with the addresses of the current transport; no kernel runs. */
  void writeParameters() {
    LowLatencyPutParameters p = new LowLatencyPutParameters();
    MemorySegment image = MemorySegment.ofArray(new long[COUNTERS_OFFSET / Long.BYTES]);
    p.placeIn(image);
    int first = internode.firstLowLatencyCounter();
    p.world.set(internode.world());
    p.staging.set(internode.lowLatencyStaging());
    p.stagingSource.set(internode.lowLatencySource());
    p.halfBytes.set(layout.halfBytes);
    p.rowsOffset.set(layout.sourceBytes);
    p.target.set(internode.lowLatencyTarget());
    p.counters.set(internode.counters() + (long) first * Long.BYTES);
    p.base.set(memory.address() + COUNTERS_OFFSET);
    p.firstCounter.set(first);
    memory.copyFrom(0, image);
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
    memory.copyFrom(COUNTERS_OFFSET, MemorySegment.ofArray(base));
  }

  /** Device memory of a rank. */
  public static long bytes(int ranks) {
    return COUNTERS_OFFSET + (long) counters(ranks) * Long.BYTES;
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
