package org.ep4j.micrometer;

import java.util.Map;
import java.util.TreeMap;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.WirePath;
import org.ep4j.tensor.Tensor;

/**
 * What the thread that uses a buffer has read from it.
 *
 * @param maskedRanks number of ranks that this rank masks
 * @param sentThroughPort bytes by port of this rank
 * @param nanos time of the sample, as System.nanoTime
 */
record Sample(
    BufferStatistics statistics, int maskedRanks, Map<String, Long> sentThroughPort, long nanos) {
  /** Reads the buffer; called by the thread that uses it. */
  static Sample of(ExpertBuffer buffer) {
    BufferStatistics statistics = buffer.statistics();
    int[] masks = new int[buffer.worldSize()];
    buffer.queryMask(Tensor.of(masks, masks.length));
    int masked = 0;
    for (int mask : masks) {
      masked += mask;
    }
    Map<String, Long> ports = new TreeMap<>();
    for (WirePath path : statistics.wirePaths()) {
      ports.merge(path.port(), path.bytes(), Long::sum);
    }
    return new Sample(statistics, masked, Map.copyOf(ports), System.nanoTime());
  }

  /** Bytes sent through a port; 0 for one that the wire has no more. */
  double sentThrough(String port) {
    return sentThroughPort.getOrDefault(port, 0L);
  }

  double ageSeconds() {
    return (System.nanoTime() - nanos) / 1e9;
  }
}
