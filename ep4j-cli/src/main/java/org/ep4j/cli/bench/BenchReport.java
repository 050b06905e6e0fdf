package org.ep4j.cli.bench;

import java.util.List;
import java.util.Map;
import org.ep4j.bench.Timings;
import org.ep4j.cli.doctor.EngineFacts;
import org.ep4j.cli.report.ReportPage;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.cuda.driver.CudaDevice;
import org.jspecify.annotations.Nullable;

/**
 * The report of a bench, as text and as JSON.
 *
 * @param settings settings of the bench
 * @param ranks number of ranks
 * @param threads whether the ranks are threads of one JVM
 */
record BenchReport(BenchSettings settings, int ranks, boolean threads) {
  private static final String NOTE =
      "n iterations, the slowest rank of each; p99 of 100 and more; GB/s per rank; ceiling: copying"
          + " (dispatch) or reading (combine) the same bytes on all ranks at once, in this run";

  private static final String UNSTEADY =
      "* no steady state: the operation was still becoming faster while it was timed; repeat it on"
          + " an idle machine, or with more --warmup";

  /** Heading of the high-throughput part. */
  String highThroughputHead(Style style, String engine, int threadsOfRank) {
    return style.bold("High throughput")
        + "  "
        + where(engine, threadsOfRank)
        + "\n          %d tokens a rank, hidden %d, top-%d of %d experts, %s, %s, %s%s\n"
            .formatted(
                settings.tokens(),
                settings.hidden(),
                settings.topk(),
                settings.experts(),
                BenchSettings.word(settings.payload()),
                settings.layoutWords(),
                BenchSettings.word(settings.mode()),
                zeroCopy())
        + common();
  }

  /** Heading of the low-latency part. */
  String lowLatencyHead(Style style, String engine, int threadsOfRank) {
    StringBuilder options = new StringBuilder();
    options.append(settings.options().hook() ? ", hook" : "");
    options.append(zeroCopy());
    options.append(settings.options().rankMajor() ? ", rank-major" : "");
    options.append(settings.options().partial() ? ", partial sums" : "");
    options.append(settings.orderWords());
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

  private String zeroCopy() {
    return settings.options().zeroCopy() ? ", zero-copy combine" : "";
  }

  private String where(String engine, int threadsOfRank) {
    int nodes = settings.nodes().count(ranks);
    String instructions = EngineFacts.instructions(engine);
    return "%s engine, %d rank%s%s (%s), %d thread%s a rank, %d cores%s"
        .formatted(
            engine,
            ranks,
            ranks == 1 ? "" : "s",
            nodes == 1 ? "" : " of " + nodes + " nodes",
            threads ? "threads" : "processes",
            threadsOfRank,
            threadsOfRank == 1 ? "" : "s",
            Runtime.getRuntime().availableProcessors(),
            instructions.isEmpty() ? "" : "\n          " + instructions);
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
    String grouped =
        settings.topkGroups() == 0
            ? ""
            : ", experts of a token on %d of the nodes".formatted(settings.topkGroups());
    return "          %s routing%s, seed %d, %d input sets in rotation\n"
        .formatted(
            BenchSettings.word(settings.routing()),
            grouped,
            settings.seed(),
            settings.plan().buffers());
  }

  /** The results and a note on the columns. */
  String table(Style style, List<Result> results) {
    Table table =
        new Table(
            "operation",
            "n",
            "median",
            "p99",
            "min",
            "max",
            "logical\nGB/s",
            "remote\nGB/s",
            "ceiling\nGB/s",
            "% of it");
    for (Result result : results) {
      Timings timings = result.timings();
      boolean ceiling = !Double.isNaN(result.ceilingMicros());
      table.row(
          result.operation() + " " + result.payload() + mark(result),
          String.valueOf(timings.micros().length),
          Units.micros(timings.median()),
          Units.micros(timings.p99()),
          Units.micros(timings.min()),
          Units.micros(timings.max()),
          Units.significant(result.logicalGbps()),
          Units.significant(result.remoteGbps()),
          ceiling ? Units.significant(result.bytes() / result.ceilingMicros() / 1e3) : "",
          ceiling ? Units.fixed(result.ceilingPercent(), 0) : "");
    }
    return table.render(style)
        + Wrapped.faint(style, NOTE)
        + unsteady(style, results)
        + crossings(style, results);
  }

  /** A mark on the name of a row that {@link #unsteady} explains. */
  static String mark(Result result) {
    return result.warmUp().isIncomplete() ? " *" : "";
  }

  /** A note on rows that were timed before they had stopped becoming faster. */
  static String unsteady(Style style, List<Result> results) {
    return results.stream().anyMatch(result -> result.warmUp().isIncomplete())
        ? Wrapped.faint(style, UNSTEADY)
        : "";
  }

  /** The traffic between nodes; empty for one node. */
  private static String crossings(Style style, List<Result> results) {
    Table table =
        new Table(
            "between nodes",
            "rows",
            "bytes",
            "GB/s",
            "wire alone GB/s",
            "% of it",
            "with own node GB/s");
    String wire = "";
    int lanes = 0;
    for (Result result : results) {
      InternodeTraffic crossing = result.crossing();
      if (crossing != null) {
        double gbps = crossing.gbps(result.timings().median());
        wire = crossing.wire();
        lanes = crossing.lanes();
        table.row(
            result.operation() + " " + result.payload(),
            Units.fixed(crossing.rows(), 0),
            Units.bytes((long) crossing.bytes()),
            Units.significant(gbps),
            Units.significant(crossing.wireGbps()),
            Units.fixed(100 * gbps / crossing.wireGbps(), 0),
            Units.significant(crossing.withOwnNodeGbps(result.timings().median())));
      }
    }
    if (wire.isEmpty()) {
      return "";
    }
    String note =
        "per rank, both directions at once; a row counts once per node; wire alone: puts of 1 MiB"
            + " from 16 MiB over "
            + wire
            + ", "
            + lanes
            + (lanes == 1 ? " lane" : " lanes")
            + ", all ranks at once, alternating with the operations; with own node: the"
            + " unit of DeepEP's benchmark, which also counts rows to the token's own node";
    return "\n" + table.render(style) + Wrapped.faint(style, note);
  }

  /**
   * The artifact.
   *
   * @param engine the engine that ran
   * @param wire the wire that ran between nodes; null for one node
   */
  Map<String, Object> tree(
      List<Map<String, Object>> results, String engine, @Nullable String wire) {
    Map<String, Object> configuration = settings.tree();
    configuration.put("device", engine);
    configuration.put("instructions", EngineFacts.instructions(engine));
    configuration.put("wire", wire);
    configuration.put("ranks", ranks);
    configuration.put("ranks_are", threads ? "threads" : "processes");
    Map<String, Object> tree = Artifact.head();
    tree.put("format", ReportPage.FORMAT);
    tree.put("configuration", configuration);
    tree.put("verified", true);
    tree.put("results", results);
    return tree;
  }
}
