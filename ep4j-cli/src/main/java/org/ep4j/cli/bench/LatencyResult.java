package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
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
 * @param internodeBytes that a rank sent to ranks of other nodes; as many came in
 * @param limits what bounded that; null if there is one node, or it is not known yet
 */
record LatencyResult(
    Result result,
    String how,
    int tokens,
    int sms,
    Timings host,
    double internodeBytes,
    @Nullable NodeLimits limits) {
  /** Columns of the table. */
  static final String[] COLUMNS = {
    "operation", "as", "tokens", "SMs", "median", "p99", "p99.9", "min", "host", "remote GB/s"
  };

  /** The same across nodes. */
  static final String[] NODE_COLUMNS =
      Stream.concat(Stream.of(COLUMNS), Stream.of("ceiling", "times it")).toArray(String[]::new);

  /** The same with its limits. */
  LatencyResult withLimits(NodeLimits known) {
    return new LatencyResult(result, how, tokens, sms, host, internodeBytes, known);
  }

  /** The line of the table. */
  String[] cells() {
    Timings timings = result.timings();
    List<String> cells = new ArrayList<>();
    cells.add(result.operation() + " " + result.payload());
    cells.add(how);
    cells.add(String.valueOf(tokens));
    cells.add(sms == 0 ? "auto" : String.valueOf(sms));
    cells.add(Units.micros(timings.median()));
    cells.add(Units.micros(timings.p99()));
    cells.add(Units.micros(timings.p999()));
    cells.add(Units.micros(timings.min()));
    cells.add(host.max() > 0 ? Units.micros(host.median()) : "");
    cells.add(Units.significant(result.remoteGbps()));
    if (limits != null) {
      boolean compared = isCompared(limits);
      double ceiling = limits.micros(internodeBytes);
      cells.add(compared ? Units.micros(ceiling) : "");
      cells.add(compared ? Units.fixed(timings.median() / ceiling, 2) : "");
    }
    return cells.toArray(String[]::new);
  }

  private boolean isCompared(NodeLimits bounds) {
    return bounds.isMeasured() && internodeBytes > 0;
  }

  /** For the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = result.tree();
    tree.put("as", how);
    tree.put("tokens", tokens);
    tree.put("sms", sms);
    tree.put("host_median_us", host.median());
    if (limits != null) {
      Map<String, Object> internode = new LinkedHashMap<>();
      internode.put("scale_out_bytes", internodeBytes);
      limits.addTo(internode, internodeBytes / result.timings().median() / 1e3);
      if (isCompared(limits)) {
        internode.put("ceiling_us", limits.micros(internodeBytes));
      }
      tree.put("nodes", internode);
    }
    return tree;
  }
}
