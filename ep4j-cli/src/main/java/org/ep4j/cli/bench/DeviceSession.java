package org.ep4j.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.bench.DeviceCeiling;
import org.ep4j.bench.NodeLimits;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.cuda.driver.CudaDevice;

/** The high-throughput part of a bench on GPUs, one payload after the other. */
final class DeviceSession {
  private final RankContext context;
  private final boolean threads;
  private final Consumer<RankContext> found;

  /**
   * @param threads whether the ranks are threads of this JVM
   * @param found receives the context of each buffer, with its nodes
   */
  DeviceSession(RankContext context, boolean threads, Consumer<RankContext> found) {
    this.context = context;
    this.threads = threads;
    this.found = found;
  }

  /**
   * Runs the part; returns the results for the artifact.
   *
   * @param warm whether this process has already run such a part
   */
  List<Map<String, Object>> run(boolean warm) {
    List<Map<String, Object>> trees = new ArrayList<>();
    for (Payload payload : context.settings().payloads()) {
      RankContext own = context.with(context.settings().only(payload));
      if (trees.isEmpty() && !warm) {
        warmUp(own);
      }
      trees.addAll(measure(own));
    }
    return trees;
  }

  /** Runs few short rows first: until the JIT compiler has finished, calls and checks are slow. */
  private static void warmUp(RankContext own) {
    own.at("warming up");
    try (DeviceWork few = new DeviceWork(own.with(own.settings().small()))) {
      if (own.settings().mode() == BenchSettings.Mode.GRAPH) {
        try (GraphBench bench = new GraphBench(few)) {
          bench.warmUp();
          few.settle();
        }
      } else {
        try (DeviceBench bench = new DeviceBench(few)) {
          bench.warmUp();
          few.settle();
        }
      }
    }
  }

  private List<Map<String, Object>> measure(RankContext own) {
    BenchSettings settings = own.settings();
    try (DeviceWork work = new DeviceWork(own)) {
      found.accept(work.context);
      own.print(head(work));
      double dispatchCeiling = Double.NaN;
      double combineCeiling = Double.NaN;
      if (!work.severalNodes()) {
        own.at("measuring the ceilings");
        double rows = work.flat.mean() / own.group().size();
        DeviceCeiling ceiling = new DeviceCeiling(own.group(), own.agreement(), settings.sms());
        dispatchCeiling = ceiling.micros(settings.payload().dispatchBytes(settings.hidden()), rows);
        combineCeiling = ceiling.micros(settings.payload().combineBytes(settings.hidden()), rows);
      }
      // The probe has made other devices current for this thread.
      work.device.makeCurrent();
      List<DeviceResult> results = new ArrayList<>();
      ProcessorUse use = new ProcessorUse(work.context, work.buffer, work.device);
      for (int sms : settings.sms()) {
        work.buffer.setParallelism(sms);
        results.addAll(measure(work, dispatchCeiling, combineCeiling));
      }
      if (work.severalNodes()) {
        NodeLimits limits = use.limits();
        results.replaceAll(result -> result.withLimits(limits));
      }
      own.print(table(own.style(), results));
      List<Map<String, Object>> trees = results.stream().map(DeviceResult::tree).toList();
      if (settings.nccl().against()) {
        own.print(new NcclBaseline(work).measure(results, trees));
      }
      return trees;
    }
  }

  private static List<DeviceResult> measure(
      DeviceWork work, double dispatchCeiling, double combineCeiling) {
    int lastSet = work.sets.size() - 1;
    if (work.settings.mode() == BenchSettings.Mode.GRAPH) {
      try (GraphBench bench = new GraphBench(work)) {
        work.context.at("verifying");
        bench.verify(0);
        work.context.at("timing replays with " + work.buffer.parallelism() + " SMs");
        List<DeviceResult> results = bench.measure(dispatchCeiling, combineCeiling);
        bench.verify(lastSet);
        work.settle();
        return results;
      }
    }
    try (DeviceBench bench = new DeviceBench(work)) {
      work.context.at("verifying");
      bench.verify(0);
      work.context.at("timing calls with " + work.buffer.parallelism() + " SMs");
      List<DeviceResult> results = bench.measure(dispatchCeiling, combineCeiling);
      bench.verify(lastSet);
      work.settle();
      return results;
    }
  }

  private String head(DeviceWork work) {
    BenchSettings settings = work.settings;
    int ranks = work.context.group().size();
    int gpus = Math.min(ranks, CudaDevice.count());
    String nodes =
        work.severalNodes()
            ? " in %d nodes over %s"
                .formatted(settings.nodes().count(ranks), work.buffer.config().wire())
            : "";
    return work.context.style().bold("High throughput")
        + "  %s engine, %d rank%s (%s) on %d x %s%n"
            .formatted(
                work.buffer.engine(),
                ranks,
                (ranks == 1 ? "" : "s") + nodes,
                threads ? "threads" : "processes",
                gpus,
                work.device.properties().name())
        + "          %d tokens a rank, hidden %d, top-%d of %d experts, %s, %s, %s%n"
            .formatted(
                settings.tokens(),
                settings.hidden(),
                settings.topk(),
                settings.experts(),
                BenchSettings.word(settings.payload()),
                settings.layoutWords(),
                BenchSettings.word(settings.mode()))
        + "          %s routing, seed %d, %d input sets in rotation%n"
            .formatted(
                BenchSettings.word(settings.routing()), settings.seed(), settings.plan().buffers())
        + memory(settings, ranks);
  }

  private static String memory(BenchSettings settings, int ranks) {
    BufferSizes sizes = ExpertBuffer.sizes(settings.highThroughputConfig(ranks), ranks);
    return "          %s per rank accessible to peers, %s when first used%n"
        .formatted(Units.bytes(sizes.symmetricBytes()), Units.bytes(sizes.firstUseBytes()));
  }

  private static String table(Style style, List<DeviceResult> results) {
    NodeLimits limits = results.getFirst().limits();
    Table table = new Table(limits == null ? DeviceResult.COLUMNS : DeviceResult.NODE_COLUMNS);
    results.forEach(result -> table.row(result.cells()));
    return "verified  "
        + style.good("every byte equals the oracle, before and after the timing of each row")
        + "\n\n"
        + table.render(style)
        + Wrapped.faint(
            style,
            "n calls, the slowest rank of each, events around the whole call; p99 of 100 and more;"
                + " GB/s per rank, of the whole call; kernel: median of as many further calls on a"
                + " stream that is held until all kernels are enqueued: GPU time alone; host: host"
                + " time of a call; rows of combines: "
                + results.stream()
                    .map(DeviceResult::combined)
                    .filter(how -> !how.isEmpty())
                    .distinct()
                    .collect(Collectors.joining(", "))
                + ";"
                + (limits == null
                    ? " ceiling: bare pushes of the same rows on all GPUs at once, in this run"
                    : betweenNodes(limits, results)))
        + BenchReport.unsteady(style, results.stream().map(DeviceResult::result).toList());
  }

  private static String betweenNodes(NodeLimits limits, List<DeviceResult> results) {
    return (" scale-out: rows sent to other nodes, each once per node; %s GB/s in the unit of"
            + " DeepEP's benchmark, which also counts rows to the token's own node; ceiling: %s;"
            + " scale-up: rows from other ranks of the node, including forwarded rows; %s")
        .formatted(
            results.stream()
                .map(DeviceResult::withOwnNode)
                .distinct()
                .collect(Collectors.joining(", ")),
            limits.ceiling()
                + (limits.isMeasured() ? ", all ranks at once, GB/s each way, in this run" : ""),
            limits.cores().strip());
  }
}
