package org.ep4j.cuda.jit;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The kernels for common shapes: compiled by the tests for every architecture, prepared by {@code
 * ep4j cache warm}. A kernel file that is not in this list is not tested.
 */
public final class PrebuiltKernels {
  private static final List<PrebuiltKernel> ALL =
      Stream.concat(
              Stream.of(
                  new PrebuiltKernel("smoke", "smoke.cu", Map.of("SMOKE_OFFSET", "1.0f"), true),
                  new PrebuiltKernel("dispatch", "dispatch.cu", Map.of(), true),
                  new PrebuiltKernel("expert-dispatch", "expert_dispatch.cu", Map.of(), true),
                  new PrebuiltKernel("combine", "combine.cu", Map.of(), true),
                  new PrebuiltKernel("layout", "layout.cu", Map.of(), false),
                  new PrebuiltKernel("columns", "columns.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "low-latency dispatch", "low_latency_dispatch.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "low-latency combine", "low_latency_combine.cu", Map.of(), true),
                  new PrebuiltKernel(
                      "low-latency dispatch by ranks",
                      "low_latency_dispatch_by_ranks.cu",
                      Map.of(),
                      true),
                  new PrebuiltKernel(
                      "low-latency combine by ranks",
                      "low_latency_combine_by_ranks.cu",
                      Map.of(),
                      true),
                  new PrebuiltKernel("probe", "probe.cu", Map.of(), true),
                  new PrebuiltKernel("proxy probe", "proxy_probe.cu", Map.of(), true)),
              lowLatency(7168, 8, 256, 8, false).stream())
          .toList();

  private PrebuiltKernels() {}

  /**
   * What low-latency kernels may know when they are compiled for one buffer; see {@code
   * low_latency.cuh}.
   */
  public static Map<String, String> lowLatencyConstants(
      int hidden, int ranks, int experts, int topK, boolean masking) {
    return Map.of(
        "EP4J_HIDDEN", String.valueOf(hidden),
        "EP4J_RANKS", String.valueOf(ranks),
        "EP4J_EXPERTS", String.valueOf(experts),
        "EP4J_CHOICES", String.valueOf(topK),
        "EP4J_MASKING", masking ? "1" : "0");
  }

  /** The low-latency kernels of buffers of one shape. */
  public static List<PrebuiltKernel> lowLatency(
      int hidden, int ranks, int experts, int topK, boolean masking) {
    Map<String, String> constants = lowLatencyConstants(hidden, ranks, experts, topK, masking);
    String shape = " of " + hidden + " on " + ranks + " ranks";
    return List.of(
        new PrebuiltKernel(
            "low-latency dispatch" + shape, "low_latency_dispatch.cu", constants, true),
        new PrebuiltKernel(
            "low-latency combine" + shape, "low_latency_combine.cu", constants, true),
        new PrebuiltKernel(
            "low-latency dispatch by ranks" + shape,
            "low_latency_dispatch_by_ranks.cu",
            constants,
            true),
        new PrebuiltKernel(
            "low-latency combine by ranks" + shape,
            "low_latency_combine_by_ranks.cu",
            constants,
            true));
  }

  /** All of them. */
  public static List<PrebuiltKernel> all() {
    return ALL;
  }
}
