package org.ep4j.cli.bench;

import java.util.List;
import java.util.Map;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.driver.CudaDevice;

/**
 * The report of a bench, as text and as JSON.
 *
 * @param settings settings of the bench
 * @param ranks number of ranks
 * @param threads whether the ranks are threads of one JVM
 */
record BenchReport(BenchSettings settings, int ranks, boolean threads) {
  /** Heading of the high-throughput part. */
  String highThroughputHead(Style style, String engine, int threadsOfRank) {
    return style.bold("High throughput")
        + "  "
        + where(engine, threadsOfRank)
        + "\n          %d tokens a rank, hidden %d, top-%d of %d experts, %s, %s, %s\n"
            .formatted(
                settings.tokens(),
                settings.hidden(),
                settings.topk(),
                settings.experts(),
                BenchSettings.word(settings.payload()),
                settings.layoutWords(),
                BenchSettings.word(settings.mode()))
        + common();
  }

  /** Heading of the low-latency part. */
  String lowLatencyHead(Style style, String engine, int threadsOfRank) {
    StringBuilder options = new StringBuilder();
    options.append(settings.options().hook() ? ", hook" : "");
    options.append(settings.options().zeroCopy() ? ", zero-copy combine" : "");
    options.append(settings.options().rankMajor() ? ", rank-major" : "");
    options.append(settings.options().partial() ? ", partial sums" : "");
    options.append(settings.options().logFmt() ? ", LogFMT-10 combine" : "");
    return style.bold("Low latency")
        + "  "
        + (settings.onDevice() ? onGpus(engine) : where(engine, threadsOfRank))
        + "\n          %d tokens a rank (at most %d), hidden %d, top-%d of %d experts%s\n"
            .formatted(
                settings.lowLatencyTokens(),
                settings.maxTokens(),
                settings.hidden(),
                settings.topk(),
                settings.experts(),
                options)
        + common();
  }

  private String where(String engine, int threadsOfRank) {
    int nodes = settings.nodes().count(ranks);
    return "%s engine, %d rank%s%s (%s), %d thread%s a rank, %d cores"
        .formatted(
            engine,
            ranks,
            ranks == 1 ? "" : "s",
            nodes == 1 ? "" : " of " + nodes + " nodes",
            threads ? "threads" : "processes",
            threadsOfRank,
            threadsOfRank == 1 ? "" : "s",
            Runtime.getRuntime().availableProcessors());
  }

  private String onGpus(String engine) {
    return "%s engine, %d rank%s (%s) on %d GPUs"
        .formatted(
            engine,
            ranks,
            ranks == 1 ? "" : "s",
            threads ? "threads" : "processes",
            Math.min(ranks, CudaDevice.count()));
  }

  private String common() {
    return "          %s routing, seed %d, %d input sets in rotation\n"
        .formatted(
            BenchSettings.word(settings.routing()), settings.seed(), settings.plan().buffers());
  }

  /** The results and a note on the columns. */
  String table(Style style, List<Result> results) {
    Table table =
        new Table(
            "operation",
            "median",
            "p99",
            "min",
            "max",
            "logical GB/s",
            "remote GB/s",
            "ceiling GB/s",
            "% of it");
    for (Result result : results) {
      Timings timings = result.timings();
      boolean ceiling = !Double.isNaN(result.ceilingMicros());
      table.row(
          result.operation() + " " + result.payload(),
          Units.micros(timings.median()),
          Units.micros(timings.p99()),
          Units.micros(timings.min()),
          Units.micros(timings.max()),
          Units.significant(result.logicalGbps()),
          Units.significant(result.remoteGbps()),
          ceiling ? Units.significant(result.bytes() / result.ceilingMicros() / 1e3) : "",
          ceiling ? Units.fixed(result.ceilingPercent(), 0) : "");
    }
    String note =
        "%d iterations, the slowest rank of each; GB/s per rank; ceiling: copying (dispatch) or"
                .formatted(iterations(results))
            + " reading (combine) the same bytes on all ranks at once, in this run";
    return table.render(style) + style.faint(note) + "\n" + crossings(style, results);
  }

  /** The traffic between nodes; empty for one node. */
  private static String crossings(Style style, List<Result> results) {
    Table table = new Table("between nodes", "rows", "bytes", "GB/s", "wire alone GB/s", "% of it");
    String wire = "";
    for (Result result : results) {
      InternodeTraffic crossing = result.crossing();
      if (crossing != null) {
        double gbps = crossing.gbps(result.timings().median());
        wire = crossing.wire();
        table.row(
            result.operation() + " " + result.payload(),
            Units.fixed(crossing.rows(), 0),
            Units.bytes((long) crossing.bytes()),
            Units.significant(gbps),
            Units.significant(crossing.wireGbps()),
            Units.fixed(100 * gbps / crossing.wireGbps(), 0));
      }
    }
    if (wire.isEmpty()) {
      return "";
    }
    String note =
        "per rank, both directions at once; a row counts once per node; wire alone: puts of 1 MiB"
            + " over "
            + wire
            + ", 4 lanes, all ranks at once, alternating with the operations";
    return "\n" + table.render(style) + style.faint(note) + "\n";
  }

  private static int iterations(List<Result> results) {
    return results.stream().mapToInt(r -> r.timings().micros().length).min().orElse(0);
  }

  /** The artifact. */
  Map<String, Object> tree(List<Map<String, Object>> results) {
    Map<String, Object> configuration = settings.tree();
    configuration.put("ranks", ranks);
    configuration.put("ranks_are", threads ? "threads" : "processes");
    Map<String, Object> tree = Artifact.head();
    tree.put("configuration", configuration);
    tree.put("verified", true);
    tree.put("results", results);
    return tree;
  }
}
