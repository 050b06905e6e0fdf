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

  private static final List<PrebuiltKernel> ALL =
      Stream.of(
              List.of(
                  new PrebuiltKernel(
                      "smoke", "probe/smoke.cu", Map.of("SMOKE_OFFSET", "1.0f"), true),
                  new PrebuiltKernel("dispatch", "dispatch/dispatch.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "expert-dispatch", "dispatch/expert_dispatch.cu", Map.of(), true),
                  new PrebuiltKernel("combine", "combine/combine.cu", Map.of(), true),
                  new PrebuiltKernel("expert-combine", "combine/expert_combine.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "weighted expert-combine",
                      "combine/weighted_expert_combine.cu",
                      Map.of(),
                      true),
                  new PrebuiltKernel(
                      "expert-pull combine", "combine/expert_pull_combine.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "internode dispatch", "internode/internode_dispatch.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "internode expert-dispatch",
                      "internode/internode_expert_dispatch.cu",
                      Map.of(),
                      true),
                  new PrebuiltKernel(
                      "internode combine", "internode/internode_combine.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "internode weighted combine",
                      "internode/internode_weighted_combine.cu",
                      Map.of(),
                      true),
                  new PrebuiltKernel(
                      "internode combine by experts",
                      "internode/internode_by_experts.cu",
                      Map.of(),
                      true),
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
              lowLatency("", "", Map.of()),
              lowLatency("", " with LL packets", LL_PACKETS),
              lowLatency("_mapped", "", Map.of()),
              lowLatency("_puts", "", Map.of()),
              lowLatency(7168, 8, 256, 8, false))
          .flatMap(List::stream)
          .toList();

  private PrebuiltKernels() {}

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
