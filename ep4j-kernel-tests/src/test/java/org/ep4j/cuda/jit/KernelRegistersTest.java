package org.ep4j.cuda.jit;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.conformance.world.TestScale;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * The kernels that {@link KernelsCompileTest} compiles with few optimizations by default spill no
 * register once they are optimized.
 */
class KernelRegistersTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");

  @TempDir private Path directory;

  @TestFactory
  Stream<DynamicTest> optimizedKernelsSpillNothing() throws IOException, InterruptedException {
    if (!FULL) {
      // A test that is skipped, where a factory would count for nothing.
      return Stream.of(
          DynamicTest.dynamicTest(
              "optimized kernels",
              () -> TestScale.onlyInFull("these optimizations take two minutes of a core")));
    }
    List<PrebuiltKernel> kernels =
        PrebuiltKernels.all().stream()
            .filter(KernelsCompileTest::usual)
            .filter(KernelCompilations::takeLong)
            .toList();
    return new KernelCompilations(true, directory).tests(kernels, List.of("sm_90a"));
  }
}
