package org.ep4j.cuda.jit;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The kernels for common shapes: tests compile them for every architecture, {@code ep4j cache warm}
 * prepares them. Kernel files outside this list are not tested.
 */
public final class PrebuiltKernels {
  /**
   * Environment variable that turns packed flags off ({@code 0}): rows between GPUs of a node then
   * use separate flags behind fences instead of carrying the number of their operation, as without
   * NVLink between all GPUs.
   */
  public static final String LL_PACKETS_VARIABLE = "EP4J_CUDA_LL_PACKETS";

  /** Low latency within a node with packed flags. */
  public static final Map<String, String> LL_PACKETS = Map.of("EP4J_LL_PACKETS", "1");

  private static final Map<String, String> PUT_BY_STORES = Map.of("EP4J_PUT_TRANSPORT", "0");
  private static final Map<String, String> PUT_BY_RINGS = Map.of("EP4J_PUT_TRANSPORT", "1");

  private static final List<String> ONE_NODE =
      List.of(
          "dispatch/dispatch",
          "dispatch/expert_dispatch",
          "combine/combine",
          "combine/expert_combine",
          "combine/weighted_expert_combine",
          "combine/expert_pull_combine");

  private static final List<String> BETWEEN_NODES =
      List.of(
          "internode/internode_dispatch",
          "internode/internode_expert_dispatch",
          "internode/internode_combine",
          "internode/internode_weighted_combine",
          "internode/internode_by_experts");

  private static final List<PrebuiltKernel> ALL =
      Stream.of(
              List.of(
                  new PrebuiltKernel(
                      "smoke", "probe/smoke.cu", Map.of("SMOKE_OFFSET", "1.0f"), true),
                  new PrebuiltKernel("layout", "dispatch/layout.cu", Map.of(), false),
                  new PrebuiltKernel(
                      "routing counts", "dispatch/routing_counts.cu", Map.of(), false),
                  new PrebuiltKernel(
                      "transpose scales", "dispatch/transpose_scales.cu", Map.of(), true),
                  new PrebuiltKernel("scale rows", "dispatch/scale_rows.cu", Map.of(), true),
                  new PrebuiltKernel("expert ids", "dispatch/expert_ids.cu", Map.of(), false),
                  new PrebuiltKernel("probe", "probe/probe.cu", Map.of(), true),
                  new PrebuiltKernel("proxy probe", "probe/proxy_probe.cu", Map.of(), true),
                  new PrebuiltKernel("put probe", "probe/put_probe.cu", PUT_BY_STORES, true),
                  new PrebuiltKernel(
                      "put probe by rings", "probe/put_probe.cu", PUT_BY_RINGS, true)),
              highThroughput(ONE_NODE, "", Map.of()),
              highThroughput(BETWEEN_NODES, "", Map.of()),
              lowLatency("", "", Map.of()),
              lowLatency("", " with LL packets", LL_PACKETS),
              lowLatency("_mapped", "", Map.of()),
              lowLatency("_puts", "", Map.of()),
              highThroughput(8, 256, 8),
              lowLatency(7168, 8, 256, 8, false))
          .flatMap(List::stream)
          .toList();

  private PrebuiltKernels() {}

  /** Compile-time constants of high-throughput kernels; see {@code common/specialized.cuh}. */
  public static Map<String, String> highThroughputConstants(int ranks, int experts, int topK) {
    return Map.of(
        "EP4J_RANKS", String.valueOf(ranks),
        "EP4J_EXPERTS", String.valueOf(experts),
        "EP4J_CHOICES", String.valueOf(topK));
  }

  /** The high-throughput kernels of buffers of one shape, on one node. */
  public static List<PrebuiltKernel> highThroughput(int ranks, int experts, int topK) {
    return highThroughput(
        ONE_NODE,
        " for top-" + topK + " of " + experts + " experts on " + ranks + " ranks",
        highThroughputConstants(ranks, experts, topK));
  }

  private static List<PrebuiltKernel> highThroughput(
      List<String> files, String shape, Map<String, String> constants) {
    return files.stream()
        .map(
            file ->
                new PrebuiltKernel(
                    file.substring(file.indexOf('/') + 1).replace('_', ' ') + shape,
                    file + ".cu",
                    constants,
                    true))
        .toList();
  }

  /** Compile-time constants of low-latency kernels for one buffer; see {@code low_latency.cuh}. */
  public static Map<String, String> lowLatencyConstants(
      int hidden, int ranks, int experts, int topK, boolean masking) {
    return Map.of(
        "EP4J_HIDDEN", String.valueOf(hidden),
        "EP4J_RANKS", String.valueOf(ranks),
        "EP4J_EXPERTS", String.valueOf(experts),
        "EP4J_CHOICES", String.valueOf(topK),
        "EP4J_MASKING", masking ? "1" : "0");
  }

  /** The low-latency kernels of buffers of one shape on one node, with NVLink and without. */
  public static List<PrebuiltKernel> lowLatency(
      int hidden, int ranks, int experts, int topK, boolean masking) {
    String shape = " of " + hidden + " on " + ranks + " ranks";
    KernelConstants llPackets =
        new KernelConstants(LL_PACKETS, lowLatencyConstants(hidden, ranks, experts, topK, masking));
    return Stream.concat(
            lowLatency("", shape + " with LL packets", llPackets.special()).stream(),
            lowLatency("", shape, llPackets.shape()).stream())
        .toList();
  }

  private static List<PrebuiltKernel> lowLatency(
      String reach, String shape, Map<String, String> constants) {
    return Stream.of(
            "dispatch", "weighted_dispatch", "combine", "dispatch_rank_major", "combine_rank_major")
        .map(file -> file + reach)
        .map(
            file ->
                new PrebuiltKernel(
                    "low-latency " + file.replace('_', ' ') + shape,
                    "lowlatency/low_latency_" + file + ".cu",
                    constants,
                    true))
        .toList();
  }

  /** Files that are linked to a transport library. */
  public static List<String> linkedFiles() {
    return ALL.stream()
        .map(PrebuiltKernel::entry)
        .distinct()
        .filter(
            entry ->
                entry.startsWith("internode/")
                    || entry.startsWith("probe/put_")
                    || entry.endsWith("_puts.cu"))
        .toList();
  }

  /** All kernels. */
  public static List<PrebuiltKernel> all() {
    return ALL;
  }
}
