package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.bench.Timings;
import org.jspecify.annotations.Nullable;

/**
 * One measured operation; the same on every rank.
 *
 * @param operation {@code dispatch}, {@code combine}, {@code ll_dispatch}, {@code ll_combine}, ...
 * @param payload format of its rows
 * @param timings durations
 * @param rows rows that a rank receives (dispatch) or its experts return (combine), mean of ranks
 *     and input sets
 * @param bytes bytes of those rows, scales included
 * @param remoteBytes bytes of rows from other ranks
 * @param ceilingMicros time in which the memory of this machine moves those bytes; NaN if not
 *     measured
 * @param crossing traffic between nodes; null for one node, or if not measured
 * @param warmUp what ran before the timed iterations
 */
record Result(
    String operation,
    String payload,
    Timings timings,
    double rows,
    double bytes,
    double remoteBytes,
    double ceilingMicros,
    @Nullable InternodeTraffic crossing,
    WarmUp warmUp) {
  /** A result in one node. */
  Result(
      String operation,
      String payload,
      Timings timings,
      double rows,
      double bytes,
      double remoteBytes,
      double ceilingMicros) {
    this(operation, payload, timings, rows, bytes, remoteBytes, ceilingMicros, null, WarmUp.NONE);
  }

  /** This result with what ran before it. */
  Result after(WarmUp warm) {
    return new Result(
        operation, payload, timings, rows, bytes, remoteBytes, ceilingMicros, crossing, warm);
  }

  /** GB/s of received rows over the median. */
  double logicalGbps() {
    return bytes / timings.median() / 1e3;
  }

  /** The same for rows from other ranks. */
  double remoteGbps() {
    return remoteBytes / timings.median() / 1e3;
  }

  /** The time of the ceiling in percent of the median. */
  double ceilingPercent() {
    return 100 * ceilingMicros / timings.median();
  }

  /** The fields for the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = new LinkedHashMap<>();
    tree.put("op", operation);
    tree.put("dtype", payload);
    tree.put("median_us", timings.median());
    tree.put("p99_us", timings.p99());
    tree.put("p999_us", timings.p999());
    tree.put("min_us", timings.min());
    tree.put("max_us", timings.max());
    tree.put("logical_gbps", logicalGbps());
    tree.put("remote_gbps", remoteGbps());
    tree.put("recv_rows", rows);
    tree.put("bytes", bytes);
    tree.put("remote_bytes", remoteBytes);
    if (!Double.isNaN(ceilingMicros)) {
      tree.put("ceiling_us", ceilingMicros);
      tree.put("ceiling_percent", ceilingPercent());
    }
    if (crossing != null) {
      tree.put("between_nodes", crossing.tree(timings.median()));
    }
    tree.put("warmup", warmUp.iterations());
    tree.put("steady", warmUp.steady());
    tree.put("iterations", timings.micros().length);
    tree.put("iterations_us", timings.micros());
    return tree;
  }
}
