package org.ep4j.cli.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One measured operation; the same on every rank.
 *
 * @param operation {@code dispatch}, {@code combine}, {@code ll_dispatch}, {@code ll_combine}, ...
 * @param payload what its rows travel as
 * @param timings its durations
 * @param rows rows a rank receives (dispatch) or that its experts return (combine), mean of ranks
 *     and input sets
 * @param bytes bytes of those rows, scales included
 * @param remoteBytes the part of them that comes from other ranks
 * @param ceilingMicros how long the memory of this machine needs for those bytes; NaN if that was
 *     not measured
 * @param crossing what moved between nodes; null if there is one, or if that was not measured
 */
record Result(
    String operation,
    String payload,
    Timings timings,
    double rows,
    double bytes,
    double remoteBytes,
    double ceilingMicros,
    @Nullable InternodeTraffic crossing) {
  /** An operation in one node. */
  Result(
      String operation,
      String payload,
      Timings timings,
      double rows,
      double bytes,
      double remoteBytes,
      double ceilingMicros) {
    this(operation, payload, timings, rows, bytes, remoteBytes, ceilingMicros, null);
  }

  /** Bytes of received rows over the median, in 10^9 a second. */
  double logicalGbps() {
    return bytes / timings.median() / 1e3;
  }

  /** The same for rows from other ranks. */
  double remoteGbps() {
    return remoteBytes / timings.median() / 1e3;
  }

  /** The ceiling's time in per cent of ours. */
  double ceilingPercent() {
    return 100 * ceilingMicros / timings.median();
  }

  /** For the artifact. */
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
    tree.put("iterations", timings.micros().length);
    tree.put("iterations_us", timings.micros());
    return tree;
  }
}
