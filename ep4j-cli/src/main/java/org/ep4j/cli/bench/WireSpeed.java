package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a wire did with puts of one size.
 *
 * @param wire kind of wire
 * @param lanes lanes that the puts took in turn
 * @param connections connections below them; 0 where there are none
 * @param bytes size of a put
 * @param puts puts of the timed stream
 * @param streamNanos from the first put until the sender knew that all had been counted
 * @param latencyMicros half round trips, put and count each way, in the order they ran
 */
record WireSpeed(
    String wire,
    int lanes,
    int connections,
    long bytes,
    long puts,
    long streamNanos,
    double[] latencyMicros) {
  /** The middle of the half round trips. */
  double latency() {
    return new Timings(latencyMicros).median();
  }

  /** Millions of puts a second. */
  double millionsPerSecond() {
    return puts * 1e3 / streamNanos;
  }

  /** Payload bytes a nanosecond. */
  double gbps() {
    return (double) bytes * puts / streamNanos;
  }

  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("wire", wire);
    tree.put("lanes", lanes);
    tree.put("connections", connections);
    tree.put("bytes", bytes);
    tree.put("latency_median_us", latency());
    tree.put("mputs_per_s", millionsPerSecond());
    tree.put("gbps", gbps());
    tree.put("stream_puts", puts);
    tree.put("stream_us", streamNanos / 1e3);
    tree.put("latency_us", latencyMicros);
    return tree;
  }
}
