package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.NodeLimits;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.config.EngineName;

/** The low-latency part of a bench on GPUs: all numbers of tokens and all payloads. */
final class LatencySession {
  private static final int WARMUPS = 300;

  private final RankContext context;
  private final BenchReport report;
  private final Consumer<RankContext> found;

  /**
   * @param found receives the context of each buffer, with its nodes
   */
  LatencySession(RankContext context, BenchReport report, Consumer<RankContext> found) {
    this.context = context;
    this.report = report;
    this.found = found;
  }

  /**
   * Runs the part; returns the results for the artifact.
   *
   * @param warm whether this process has already run such a part
   */
  List<Map<String, Object>> run(boolean warm) {
    BenchSettings settings = context.settings();
    context.print(report.lowLatencyHead(context.style(), EngineName.CUDA, 0));
    context.print(memory(settings));
    if (!warm) {
      warmUp();
    }
    List<Integer> tokens =
        settings.sweep().isEmpty() ? List.of(settings.lowLatencyTokens()) : settings.sweep();
    List<LatencyResult> results = new ArrayList<>();
    for (int count : tokens) {
      results.addAll(measure(context.with(settings.latency(count))));
    }
    context.print(table(context.style(), results));
    return results.stream().map(LatencyResult::tree).toList();
  }

  /** Runs few rows first: until the JIT compiler has finished, calls and checks are slow. */
  private void warmUp() {
    context.at("warming up low latency");
    try (LatencyWork few = new LatencyWork(context.with(context.settings().few()))) {
      for (Payload payload : context.settings().payloads()) {
        few.verify(0, payload);
        for (int i = 0; i < WARMUPS; i++) {
          few.combine(0, few.dispatch(0, few.dispatching(payload)).handle());
        }
      }
      few.settle();
    }
  }

  private List<LatencyResult> measure(RankContext own) {
    List<LatencyResult> results = new ArrayList<>();
    try (LatencyWork work = new LatencyWork(own)) {
      RankContext across = own.across(work.buffer);
      found.accept(across);
      ProcessorUse use = new ProcessorUse(across, work.buffer, work.device);
      for (int sms : own.settings().sms()) {
        work.buffer.setParallelism(sms);
        for (Payload payload : own.settings().payloads()) {
          own.at("verifying low latency");
          work.verify(0, payload);
          own.at("timing low latency, " + own.settings().lowLatencyTokens() + " tokens");
          try (LatencyBench bench = new LatencyBench(work, payload, sms)) {
            results.addAll(bench.measure());
            work.settle();
          }
          own.at("verifying low latency again");
          work.verify(work.sets() - 1, payload);
        }
      }
      work.settle();
      if (across.severalNodes()) {
        NodeLimits limits = use.limits();
        results.replaceAll(result -> result.withLimits(limits));
      }
    }
    return results;
  }

  private String memory(BenchSettings settings) {
    int ranks = context.group().size();
    BufferSizes sizes = ExpertBuffer.sizes(settings.lowLatencyConfig(ranks), ranks);
    return "          %s per rank accessible to peers, for at most %d tokens%n"
        .formatted(Units.bytes(sizes.lowLatencyCommunicationBytes()), settings.maxTokens());
  }

  private static String table(Style style, List<LatencyResult> results) {
    NodeLimits limits = results.getFirst().limits();
    Table table = new Table(limits == null ? LatencyResult.COLUMNS : LatencyResult.NODE_COLUMNS);
    results.forEach(result -> table.row(result.cells()));
    return "verified  "
        + style.good("every byte equals the oracle, before and after the timing of each row")
        + "\n\n"
        + table.render(style)
        + Wrapped.faint(
            style,
            "calls, graph: period of an operation in a chain back to back in a stream, the slowest"
                + " rank of each of n chains; p99 of 100 and more, p99.9 of 1000 and more; host:"
                + " host time; alone: GPU time of a half with a hook, started after all ranks had"
                + " ended the earlier work and the half was enqueued; nothing: an empty kernel"
                + " measured in the same way: the overhead"
                + (limits == null ? "" : "; " + betweenNodes(limits)))
        + BenchReport.unsteady(style, results.stream().map(LatencyResult::result).toList());
  }

  /** The note on the ceiling of the first number of tokens; each number has its own ceiling. */
  private static String betweenNodes(NodeLimits limits) {
    String ceiling =
        limits.isMeasured()
            ? "time of %s for the bytes to other nodes, %s GB/s each way, all ranks at once, in this run"
                .formatted(limits.ceiling(), Units.significant(limits.ceilingGbps()))
            : limits.ceiling();
    return "ceiling: " + ceiling + "; " + limits.cores().strip();
  }
}
