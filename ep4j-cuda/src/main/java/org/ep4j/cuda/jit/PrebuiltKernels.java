package org.ep4j.cuda.jit;

import java.util.List;
import java.util.Map;

/**
 * The kernels for common shapes: compiled by the tests for every architecture, prepared by {@code
 * ep4j cache warm}. A kernel file that is not in this list is not tested.
 */
public final class PrebuiltKernels {
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
          new PrebuiltKernel("probe", "probe.cu", Map.of(), true));

  private PrebuiltKernels() {}

  /** All of them. */
  public static List<PrebuiltKernel> all() {
    return ALL;
  }
}
