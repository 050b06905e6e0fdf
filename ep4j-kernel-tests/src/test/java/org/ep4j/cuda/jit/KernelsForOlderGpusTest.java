package org.ep4j.cuda.jit;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/**
 * The kernels that {@link KernelsCompileTest} compiles by default use nothing that the oldest GPU
 * lacks. Only nvcc's front end runs, half a second each; a compilation of all kernels for all
 * architectures, as that test does with {@code -Dep4j.full=true}, takes longer than {@code .ci/run}
 * often has.
 */
class KernelsForOlderGpusTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final String OLDEST = "sm_80";
  private static final String FRONT_END_ONLY = "-fdevice-syntax-only";

  @TempDir private Path directory;

  @TestFactory
  Stream<DynamicTest> everyKernelUsesOnlyWhatTheOldestGpuHas() {
    LibrarySearch nvcc = new NvccBackend().find();
    String reason = FULL ? nvcc.problem() : "only with -Dep4j.full=true";
    if (!reason.isEmpty()) {
      // A test that is skipped, where a factory would count for nothing.
      return Stream.of(
          DynamicTest.dynamicTest("parsed for " + OLDEST, () -> assumeTrue(false, reason)));
    }
    return KernelsCompileTest.kernels().stream()
        .map(
            kernel ->
                DynamicTest.dynamicTest(
                    kernel.name(),
                    () ->
                        Nvcc.compile(
                            nvcc.library(),
                            kernel.spec(OLDEST),
                            List.of(FRONT_END_ONLY),
                            directory)));
  }
}
