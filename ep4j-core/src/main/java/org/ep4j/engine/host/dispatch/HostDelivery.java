package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.TensorMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.PooledHandle;
import org.ep4j.memory.NativeMemory;

/** What a dispatch delivers: rows in this rank's region, counts in its private memory. */
public final class HostDelivery implements DispatchResult.Delivery {
  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ScratchLayout scratch;
  private final SegmentMemory part;
  private final SegmentMemory memory;

  /**
   * @param part this rank's high-throughput part
   * @param memory the private memory
   */
  public HostDelivery(
      HostContext context,
      HighThroughputLayout layout,
      MemorySegment part,
      ScratchLayout scratch,
      MemorySegment memory) {
    this.context = context;
    this.layout = layout;
    this.scratch = scratch;
    this.part = new SegmentMemory(part);
    this.memory = new SegmentMemory(memory);
  }

  @Override
  public TensorMemory memory(DispatchResult.Array array) {
    return array == DispatchResult.Array.SCALE_COLUMNS ? memory : part;
  }

  @Override
  public long address(DispatchResult.Array array, long rowBytes) {
    long region = part.segment().address();
    return switch (array) {
      case ROWS -> region + layout.rows;
      case SCALES -> region + layout.scales;
      case SCALE_COLUMNS -> memory.segment().address() + scratch.scaleColumns;
      case GLOBAL_SCALES -> region + layout.globalScales;
      case CHOICES -> region + layout.topkIdx;
      case WEIGHTS -> region + layout.topkWeights;
      case SOURCE_TOKENS -> region + layout.sourceTokens;
      case SOURCE_RANKS -> region + layout.sourceRanks;
      case COMBINE_INPUT -> region + layout.combineRows;
    };
  }

  /** The region is shared memory, of which the system provides a page when it is touched. */
  @Override
  public boolean isLazy() {
    return true;
  }

  @Override
  public void require(DispatchResult.Array array, long bytes) {
    if (memory(array) == part) {
      long offset = address(array, 0) - part.segment().address();
      long start = context.highThroughputOffset + offset;
      context.memory.require(start, start + bytes);
    }
  }

  @Override
  public TensorMemory memory(PooledHandle handle) {
    return memory;
  }

  @Override
  public long address(DispatchResult.Count count, PooledHandle handle) {
    return memory.segment().address() + offset(count);
  }

  private long offset(DispatchResult.Count count) {
    return switch (count) {
      case ALIGNED -> scratch.aligned;
      case RECEIVED -> scratch.received;
      case EXPERT_OFFSETS -> scratch.expertOffsets;
      case RANK_OFFSETS -> scratch.rankOffsets;
    };
  }

  /** Writes the counts of a dispatch for callers. */
  void deliver(HostHandle handle) {
    long start = memory.segment().address();
    for (int l = 0; l < handle.received.length; l++) {
      NativeMemory.putInt(start + scratch.aligned + 4L * l, handle.aligned[l]);
      NativeMemory.putInt(start + scratch.received + 4L * l, handle.received[l]);
    }
    copy(handle.expertOffsets, start + scratch.expertOffsets);
    copy(handle.rankOffsets, start + scratch.rankOffsets);
  }

  private static void copy(long[] values, long to) {
    for (int i = 0; i < values.length; i++) {
      NativeMemory.putLong(to + 8L * i, values[i]);
    }
  }
}
