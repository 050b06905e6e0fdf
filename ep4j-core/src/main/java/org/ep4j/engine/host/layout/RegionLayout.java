package org.ep4j.engine.host.layout;

import static java.util.Objects.requireNonNull;

import java.util.List;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.memory.MemoryPlan;
import org.ep4j.routing.ExpertPlacement;

/**
 * A rank's symmetric region: control page, high-throughput part, low-latency part; and the rank's
 * private memory.
 */
public final class RegionLayout {
  public final HighThroughputLayout highThroughput;
  public final ScratchLayout scratch;

  /** Offset of the high-throughput part. */
  public final long highThroughputOffset = ControlPageLayout.BYTES;

  public final LowLatencyLayout lowLatency;

  /** Offset of the low-latency part. */
  public final long lowLatencyOffset;

  /** Bytes of the region. */
  public final long bytes;

  /** Bytes of the region that ordinary use touches; the rest serves the worst case. */
  private final long likelyBytes;

  public RegionLayout(BufferConfig config) {
    highThroughput = new HighThroughputLayout(config);
    scratch = new ScratchLayout(config, highThroughput);
    lowLatencyOffset = highThroughputOffset + highThroughput.bytes;
    lowLatency = new LowLatencyLayout(config);
    bytes = lowLatencyOffset + lowLatency.bytes;
    ExpertPlacement placement = requireNonNull(config.placement(), "settled placement");
    likelyBytes =
        highThroughputOffset
            + highThroughput.likelyBytes(config, placement.ranks())
            + lowLatency.likelyBytes(config);
  }

  /** Bytes at the start of the region that ranks of other nodes mirror: control page and counts. */
  public long headBytes() {
    return highThroughput.bytes == 0
        ? highThroughputOffset
        : highThroughputOffset + highThroughput.counts + highThroughput.countsLayout.bytes;
  }

  /**
   * The memory of a rank. Control words are present from the beginning: with them the ranks report
   * errors and recover, also when no page of memory is left.
   */
  public MemoryPlan plan() {
    return new MemoryPlan(
        bytes,
        likelyBytes,
        List.of(
            new MemoryPlan.Range(0, headBytes()),
            new MemoryPlan.Range(lowLatencyOffset, lowLatencyOffset + lowLatency.wordBytes)));
  }
}
