package org.ep4j.cli.bench;

import java.util.Map;
import org.ep4j.BufferStatistics;
import org.ep4j.bench.NodeLimits;
import org.ep4j.bench.NodeTraffic;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Units;
import org.jspecify.annotations.Nullable;

/**
 * One measured operation on GPUs; the same on every rank.
 *
 * @param result times between the events around the calls
 * @param kernel times of the kernels, back to back without host time
 * @param host host times of the calls
 * @param sms SMs of an operation
 * @param combined how the rows of the combine returned; empty without a combine
 * @param nodes traffic in and between nodes; null for one node
 * @param limits limits of this traffic; null for one node, or before they are measured
 */
record DeviceResult(
    Result result,
    Timings kernel,
    Timings host,
    int sms,
    String combined,
    @Nullable NodeTraffic nodes,
    @Nullable NodeLimits limits) {
  /** Columns of the table. */
  static final String[] COLUMNS = {
    "operation",
    "SMs",
    "n",
    "median",
    "p99",
    "min",
    "kernel",
    "host",
    "logical\nGB/s",
    "remote\nGB/s",
    "ceiling",
    "% of it"
  };

  /** Columns of the table for several nodes. */
  static final String[] NODE_COLUMNS = {
    "operation",
    "SMs",
    "n",
    "median",
    "p99",
    "min",
    "kernel",
    "host",
    "logical\nGB/s",
    "scale-out\nGB/s",
    "ceiling",
    "% of it",
    "scale-up\nGB/s"
  };

  /** This result with its limits. */
  DeviceResult withLimits(NodeLimits known) {
    return new DeviceResult(result, kernel, host, sms, combined, nodes, known);
  }

  /** How the rows of the combines between two looks at the counters returned; empty without any. */
  static String combined(BufferStatistics before, BufferStatistics after) {
    long combines = after.combines() - before.combines();
    long inPlace = after.combinesInPlace() - before.combinesInPlace();
    if (combines == 0) {
      return "";
    }
    return inPlace == combines ? "read in place" : inPlace == 0 ? "pushed" : "partly pushed";
  }

  /** Name, SMs and scale-out GB/s with rows to the token's own node; empty for one node. */
  String withOwnNode() {
    NodeTraffic several = nodes;
    return several == null
        ? ""
        : "%s %s with %d SMs %s"
            .formatted(
                result.operation(),
                result.payload(),
                sms,
                Units.significant(several.withOwnNodeGbps(result.timings().median())));
  }

  /** The row of the table. */
  String[] cells() {
    Timings timings = result.timings();
    NodeTraffic several = nodes;
    if (several != null) {
      double median = timings.median();
      double crossing = several.scaleOutGbps(median);
      NodeLimits bounds = limits != null && limits.isMeasured() ? limits : null;
      return new String[] {
        result.operation() + " " + result.payload() + BenchReport.mark(result),
        String.valueOf(sms),
        String.valueOf(timings.micros().length),
        Units.micros(median),
        Units.micros(timings.p99()),
        Units.micros(timings.min()),
        Units.micros(kernel.median()),
        Units.micros(host.median()),
        Units.significant(result.logicalGbps()),
        Units.significant(crossing),
        bounds == null ? "" : Units.significant(bounds.ceilingGbps()),
        bounds == null ? "" : Units.fixed(bounds.percent(crossing), 0),
        Units.significant(several.scaleUpGbps(median))
      };
    }
    boolean ceiling = !Double.isNaN(result.ceilingMicros());
    return new String[] {
      result.operation() + " " + result.payload() + BenchReport.mark(result),
      String.valueOf(sms),
      String.valueOf(timings.micros().length),
      Units.micros(timings.median()),
      Units.micros(timings.p99()),
      Units.micros(timings.min()),
      Units.micros(kernel.median()),
      Units.micros(host.median()),
      Units.significant(result.logicalGbps()),
      Units.significant(result.remoteGbps()),
      ceiling ? Units.micros(result.ceilingMicros()) : "",
      ceiling ? Units.fixed(result.ceilingPercent(), 0) : ""
    };
  }

  /** The fields for the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = result.tree();
    tree.put("sms", sms);
    if (!combined.isEmpty()) {
      tree.put("combined_rows", combined);
    }
    tree.put("kernel_median_us", kernel.median());
    tree.put("kernel_p99_us", kernel.p99());
    tree.put("kernel_us", kernel.micros());
    tree.put("host_median_us", host.median());
    tree.put("host_p99_us", host.p99());
    tree.put("host_us", host.micros());
    NodeTraffic several = nodes;
    if (several != null) {
      double median = result.timings().median();
      Map<String, Object> traffic = several.tree(median);
      if (limits != null) {
        limits.addTo(traffic, several.scaleOutGbps(median));
      }
      tree.put("nodes", traffic);
    }
    return tree;
  }
}
