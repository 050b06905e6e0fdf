package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.bench.NodeLimits;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Units;
import org.jspecify.annotations.Nullable;

/**
 * One measured low-latency operation on GPUs; the same on every rank.
 *
 * @param result period in a chain, or duration of a half
 * @param how {@code calls}, {@code graph}, or {@code alone}
 * @param tokens tokens per rank
 * @param sms SMs set, 0 = chosen by the engine
 * @param host host times
 * @param internodeBytes bytes that a rank sends to other nodes; it receives as many
 * @param limits limits of this traffic; null for one node, or before they are measured
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
    "operation", "as", "tokens", "SMs", "n", "median", "p99", "p99.9", "min", "host", "remote\nGB/s"
  };

  /** Columns of the table for several nodes. */
  static final String[] NODE_COLUMNS =
      Stream.concat(Stream.of(COLUMNS), Stream.of("ceiling", "times\nit")).toArray(String[]::new);

  /** This result with its limits. */
  LatencyResult withLimits(NodeLimits known) {
    return new LatencyResult(result, how, tokens, sms, host, internodeBytes, known);
  }

  /** The row of the table. */
  String[] cells() {
    Timings timings = result.timings();
    List<String> cells = new ArrayList<>();
    cells.add(result.operation() + " " + result.payload() + BenchReport.mark(result));
    cells.add(how);
    cells.add(String.valueOf(tokens));
    cells.add(sms == 0 ? "auto" : String.valueOf(sms));
    cells.add(String.valueOf(timings.micros().length));
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

  /** The fields for the artifact. */
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
