package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
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
                    kernel.name(), () -> parse(nvcc.library(), kernel.spec(OLDEST))));
  }

  private void parse(String nvcc, KernelSpec spec) throws IOException, InterruptedException {
    Path sources = Files.createTempDirectory(directory, "kernel");
    for (var file : spec.sources().files().entrySet()) {
      Path target = sources.resolve(file.getKey());
      Files.createDirectories(target.getParent());
      Files.writeString(target, file.getValue());
    }
    Path log = sources.resolve("log");
    List<String> command = new ArrayList<>(List.of(nvcc, "-cubin", FRONT_END_ONLY));
    command.addAll(spec.options());
    command.addAll(List.of("-I", sources.toString(), "-o", sources.resolve("out").toString()));
    command.add(sources.resolve(spec.sources().entry()).toString());
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    boolean ended = process.waitFor(60, TimeUnit.SECONDS);
    process.destroyForcibly();
    assertThat(ended).as("nvcc has ended within 60 s").isTrue();
    assertThat(process.exitValue()).as(Files.readString(log)).isZero();
  }
}
