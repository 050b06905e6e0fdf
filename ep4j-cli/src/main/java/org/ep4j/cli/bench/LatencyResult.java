package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.cli.text.Units;
import org.jspecify.annotations.Nullable;

/**
 * One measured low-latency operation on GPUs; the same on every rank.
 *
 * @param result its period in a chain, or the duration of a half
 * @param how {@code calls}, {@code graph}, or {@code alone}
 * @param tokens a rank
 * @param sms SMs asked for, 0 = the engine's choice
 * @param host what the caller spent on it
 * @param farBytes that a rank sent to ranks of other nodes; as many came in
 * @param limits what bounded that; null if there is one node, or it is not known yet
 */
record LatencyResult(
    Result result,
    String how,
    int tokens,
    int sms,
    Timings host,
    double farBytes,
    @Nullable NodeLimits limits) {
  /** Columns of the table. */
  static final String[] COLUMNS = {
    "operation", "as", "tokens", "median", "p99", "p99.9", "min", "host", "remote GB/s"
  };

  /** The same across nodes. */
  static final String[] NODE_COLUMNS = {
    "operation",
    "as",
    "tokens",
    "SMs",
    "median",
    "p99",
    "min",
    "host",
    "remote GB/s",
    "ceiling",
    "times it"
  };

  /** The same with its limits. */
  LatencyResult within(NodeLimits known) {
    return new LatencyResult(result, how, tokens, sms, host, farBytes, known);
  }

  /** What the ceiling between nodes takes for the bytes, in both directions at once. */
  private static double wireMicros(double bytes, NodeLimits limits) {
    return bytes / limits.ceilingGbps() / 1e3;
  }

  /** The line of the table. */
  String[] cells() {
    Timings timings = result.timings();
    NodeLimits bounds = limits;
    if (bounds != null) {
      boolean measured = bounds.isMeasured() && farBytes > 0;
      double wire = wireMicros(farBytes, bounds);
      return new String[] {
        result.operation() + " " + result.payload(),
        how,
        String.valueOf(tokens),
        sms == 0 ? "auto" : String.valueOf(sms),
        Units.micros(timings.median()),
        Units.micros(timings.p99()),
        Units.micros(timings.min()),
        host.max() > 0 ? Units.micros(host.median()) : "",
        Units.significant(result.remoteGbps()),
        measured ? Units.micros(wire) : "",
        measured ? Units.fixed(timings.median() / wire, 2) : ""
      };
    }
    return new String[] {
      result.operation() + " " + result.payload(),
      how,
      String.valueOf(tokens),
      Units.micros(timings.median()),
      Units.micros(timings.p99()),
      Units.micros(timings.p999()),
      Units.micros(timings.min()),
      host.max() > 0 ? Units.micros(host.median()) : "",
      Units.significant(result.remoteGbps())
    };
  }

  /** For the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = result.tree();
    tree.put("as", how);
    tree.put("tokens", tokens);
    tree.put("sms", sms);
    tree.put("host_median_us", host.median());
    NodeLimits bounds = limits;
    if (bounds != null) {
      double median = result.timings().median();
      Map<String, Object> far = new LinkedHashMap<>();
      far.put("scale_out_bytes", farBytes);
      bounds.addTo(far, farBytes / median / 1e3);
      if (bounds.isMeasured() && farBytes > 0) {
        far.put("ceiling_us", wireMicros(farBytes, bounds));
      }
      tree.put("nodes", far);
    }
    return tree;
  }
}
