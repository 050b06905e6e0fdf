package org.ep4j.bench.wire;

import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.bench.Timings;

/**
 * Speed of a wire for puts of one size.
 *
 * @param wire kind of wire
 * @param lanes lanes that the puts rotate over
 * @param connections connections of the lanes; 0 for a wire without connections
 * @param bytes size of a put
 * @param puts puts of the timed stream
 * @param streamNanos time from the first put until the sender knows that all are counted
 * @param latencyMicros half round trips of a counted put in each direction, in order
 */
public record WireSpeed(
    String wire,
    int lanes,
    int connections,
    long bytes,
    long puts,
    long streamNanos,
    double[] latencyMicros) {
  /** Median of the half round trips. */
  public double latency() {
    return new Timings(latencyMicros).median();
  }

  /** Millions of puts per second. */
  public double millionsPerSecond() {
    return puts * 1e3 / streamNanos;
  }

  /** GB/s of payload. */
  public double gbps() {
    return (double) bytes * puts / streamNanos;
  }

  public Map<String, Object> tree() {
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
