package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;

/** The low-latency part of a bench on GPUs: each number of tokens and each kind of rows in turn. */
final class LatencySession {
  private static final int WARMUPS = 300;

  private final RankContext context;
  private final BenchReport report;

  LatencySession(RankContext context, BenchReport report) {
    this.context = context;
    this.report = report;
  }

  /**
   * Runs it; the results for the artifact.
   *
   * @param warm whether this process has run one before
   */
  List<Map<String, Object>> run(boolean warm) {
    BenchSettings settings = context.settings();
    context.print(report.lowLatencyHead(context.style(), "cuda", 0));
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

  /** Few rows first: until the compiler is done, calls and checks are slow. */
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

  private static List<LatencyResult> measure(RankContext own) {
    List<LatencyResult> results = new ArrayList<>();
    try (LatencyWork work = new LatencyWork(own)) {
      ProcessorUse use = new ProcessorUse(own, work.buffer, work.device);
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
      if (own.settings().nodes().several(own.group().size())) {
        NodeLimits limits = use.limits();
        results.replaceAll(result -> result.withLimits(limits));
      }
    }
    return results;
  }

  private String memory(BenchSettings settings) {
    int ranks = context.group().size();
    BufferSizes sizes = ExpertBuffer.sizes(settings.lowLatencyConfig(ranks), ranks);
    return "          %s a rank that peers reach, for at most %d tokens%n"
        .formatted(Units.bytes(sizes.lowLatencyCommunicationBytes()), settings.maxTokens());
  }

  private static String table(Style style, List<LatencyResult> results) {
    NodeLimits limits = results.getFirst().limits();
    Table table = new Table(limits == null ? LatencyResult.COLUMNS : LatencyResult.NODE_COLUMNS);
    results.forEach(result -> table.row(result.cells()));
    return "verified  "
        + style.good("every byte equals the oracle's, before and after the timing of each line")
        + "\n\n"
        + table.render(style)
        + style.faint(
            "calls, graph: period of an operation in a chain back to back in a stream, the slowest"
                + " rank of each chain;\n"
                + "host: the caller's time; alone: the GPU's part of a half with a hook, begun when"
                + " all ranks had ended what came before\n"
                + "and the half was enqueued; nothing: a kernel that ends at once measured so,"
                + " events and start\n"
                + (limits == null ? "" : betweenNodes(limits)));
  }

  /** With several numbers of tokens a ceiling is measured for each; the first one's is named. */
  private static String betweenNodes(NodeLimits limits) {
    String ceiling =
        limits.isMeasured()
            ? "time of %s for the bytes to other nodes, %s GB/s each way, all ranks at once, in this run"
                .formatted(limits.ceiling(), Units.significant(limits.ceilingGbps()))
            : limits.ceiling();
    return "ceiling: " + ceiling + ";\n" + limits.cores();
  }
}
