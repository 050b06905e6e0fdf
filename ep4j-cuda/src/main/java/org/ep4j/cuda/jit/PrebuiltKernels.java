package org.ep4j.cuda.jit;

import java.util.List;
import java.util.Map;

/**
 * The kernels for common shapes: compiled by the tests for every architecture, prepared by {@code
 * ep4j cache warm}. A kernel file that is not in this list is not tested.
 */
public final class PrebuiltKernels {
  /**
   * The shape of large models, 8 choices of 256 experts on 8 ranks; see {@code low_latency.cuh}.
   */
  private static final Map<String, String> LARGE =
      Map.of(
          "EP4J_HIDDEN", "7168",
          "EP4J_RANKS", "8",
          "EP4J_EXPERTS", "256",
          "EP4J_CHOICES", "8",
          "EP4J_MASKING", "0");

  private static final List<PrebuiltKernel> ALL =
      List.of(
          new PrebuiltKernel("smoke", "smoke.cu", Map.of("SMOKE_OFFSET", "1.0f"), true),
          new PrebuiltKernel("dispatch", "dispatch.cu", Map.of(), true),
          new PrebuiltKernel("expert-dispatch", "expert_dispatch.cu", Map.of(), true),
          new PrebuiltKernel("combine", "combine.cu", Map.of(), true),
          new PrebuiltKernel("layout", "layout.cu", Map.of(), false),
          new PrebuiltKernel("columns", "columns.cu", Map.of(), true),
          new PrebuiltKernel("low-latency dispatch", "low_latency_dispatch.cu", Map.of(), true),
          new PrebuiltKernel("low-latency combine", "low_latency_combine.cu", Map.of(), true),
          new PrebuiltKernel("large low-latency dispatch", "low_latency_dispatch.cu", LARGE, true),
          new PrebuiltKernel("large low-latency combine", "low_latency_combine.cu", LARGE, true),
          new PrebuiltKernel("probe", "probe.cu", Map.of(), true));

  private PrebuiltKernels() {}

  /** All of them. */
  public static List<PrebuiltKernel> all() {
    return ALL;
  }
}
