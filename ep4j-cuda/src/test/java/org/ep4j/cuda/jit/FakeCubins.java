package org.ep4j.cuda.jit;

import java.nio.file.Path;
import java.util.Objects;

/**
 * Stands for the compiled kernels on the fake driver, which loads anything: no test compiles a
 * kernel. Lies in the directory that {@code EP4J_CUDA_PREBUILT} of the process names.
 */
public final class FakeCubins {
  private static final String ARCHITECTURE = "sm_90a";

  private FakeCubins() {}

  /** Stores a cubin for each kernel file. */
  public static void store() {
    CubinCache cache =
        new CubinCache(
            Path.of(Objects.requireNonNull(System.getenv(KernelCompiler.SHIPPED_VARIABLE))),
            Long.MAX_VALUE);
    for (PrebuiltKernel kernel : PrebuiltKernels.all()) {
      KernelSpec spec = kernel.spec(ARCHITECTURE);
      String key = spec.key("fake");
      if (cache.get(key).isEmpty()) {
        cache.put(key, spec.description(), new byte[] {0});
      }
    }
  }
}
