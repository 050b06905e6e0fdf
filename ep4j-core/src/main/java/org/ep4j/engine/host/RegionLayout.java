package org.ep4j.engine.host;

import static java.util.Objects.requireNonNull;

import org.ep4j.BufferConfig;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertPlacement;

/**
 * A rank's symmetric region: control page, high-throughput part, low-latency part; and the rank's
 * private memory.
 */
final class RegionLayout {
  final HighThroughputLayout highThroughput;
  final ScratchLayout scratch;

  /** Offset of the high-throughput part. */
  final long highThroughputOffset = ControlPageLayout.BYTES;

  final LowLatencyLayout lowLatency;

  /** Offset of the low-latency part. */
  final long lowLatencyOffset;

  /** Bytes of the region. */
  final long bytes;

  /** Bytes of the region that ordinary use touches; the rest serves the worst case. */
  final long likelyBytes;

  private final long lowLatencyPrivateBytes;

  RegionLayout(BufferConfig config) {
    highThroughput = new HighThroughputLayout(config);
    scratch = new ScratchLayout(config, highThroughput);
    lowLatencyOffset = highThroughputOffset + highThroughput.bytes;
    lowLatency = new LowLatencyLayout(config);
    bytes = lowLatencyOffset + lowLatency.bytes;
    ExpertPlacement placement = requireNonNull(config.placement(), "settled placement");
    likelyBytes =
        highThroughputOffset
            + highThroughput.likelyBytes(config, placement.ranks())
            + lowLatency.communicationBytes;
    lowLatencyPrivateBytes =
        new LowLatencyMemoryLayout(config, placement.ranks(), placement.maxLocalExperts()).bytes;
  }

  /** Bytes at the start of the region that ranks of other nodes mirror: control page and counts. */
  long headBytes() {
    return highThroughput.bytes == 0
        ? highThroughputOffset
        : highThroughputOffset + highThroughput.counts + highThroughput.countsLayout.bytes;
  }

  BufferSizes sizes() {
    return new BufferSizes(
        bytes, scratch.bytes + lowLatencyPrivateBytes, lowLatency.communicationBytes);
  }
}
