package org.ep4j.cli.cache;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.cuda.jit.CubinCache;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.NvccBackend;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CacheCommandTest {
  /** All kernels take minutes on a slow, busy machine. */
  private static final Duration ALL_KERNELS = Duration.ofMinutes(10);

  /** Space for all kernels, including future ones. */
  private static final Map<String, String> ROOMY = Map.of(CubinCache.SIZE_VARIABLE, "64");

  @TempDir private Path scratch;

  @Test
  void aMissingCommandIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of("cache");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1903: ").contains("list, warm or clear");
  }

  @Test
  void listShowsTheKernelsAndClearDeletesThem() throws Exception {
    CubinCache cache = new CubinCache(scratch.resolve("cubins"), 1 << 20);
    cache.put("0123abcd-nvrtc13.0", "dispatch/dispatch.cu sm_90a {HIDDEN=7168}", new byte[5000]);

    CommandLineRun list = run(Map.of(), "cache", "list");
    assertThat(list.code()).isEqualTo(ExitCodes.OK);
    assertThat(list.out())
        .contains("dispatch/dispatch.cu sm_90a {HIDDEN=7168}")
        .contains("nvrtc13.0")
        .contains("5.0 KiB")
        .contains("kernels: 1")
        .contains("at most 7.0 MiB")
        .contains(cache.directory().toString());

    CommandLineRun clear = run(Map.of(), "cache", "clear");
    assertThat(clear.code()).isEqualTo(ExitCodes.OK);
    assertThat(clear.out()).contains("kernels deleted: 1");
    assertThat(cache.list()).isEmpty();
    assertThat(run(Map.of(), "cache", "list").out()).contains("kernels: 0");
  }

  @Test
  void withoutACompilerWarmNamesThePackage() throws Exception {
    CommandLineRun run =
        run(
            Map.of(
                Nvrtc.LIBRARY_VARIABLE, scratch.resolve("missing.so").toString(),
                NvccBackend.PROGRAM_VARIABLE, scratch.resolve("missing").toString()),
            "cache",
            "warm",
            "--arch",
            "sm_90a");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("no NVRTC").contains(Nvrtc.LIBRARY_VARIABLE);
  }

  @Test
  void withoutAGpuWarmAsksForAnArchitecture() throws Exception {
    CommandLineRun run =
        run(Map.of("EP4J_CUDA_DRIVER", scratch.resolve("missing.so").toString()), "cache", "warm");

    assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(run.err()).contains("EP4J-8003: ").contains("missing.so");
  }

  @Test
  void anUnknownArchitectureIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of("cache", "warm", "--arch", "hopper");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --arch = hopper; it must be like sm_90a");
  }

  @Test
  void anInvalidSizeIsWrongUsage() throws Exception {
    CommandLineRun run = run(Map.of(CubinCache.SIZE_VARIABLE, "plenty"), "cache", "list");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(CubinCache.SIZE_VARIABLE).contains("plenty");
  }

  @ParameterizedTest
  @ValueSource(strings = {"list", "clear", "warm --arch sm_90a"})
  void aCacheThatIsAFileIsWrongUsage(String command) throws Exception {
    Path file = Files.createFile(scratch.resolve("file"));
    CommandLineRun run =
        run(
            Map.of(CubinCache.DIRECTORY_VARIABLE, file.toString()),
            ("cache " + command).split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1741: EP4J_CUDA_CACHE = '" + file + "'; it must be a directory");
  }

  @Test
  void anInvalidShapeIsRefusedBeforeTheCompilation() {
    CommandLineRun run = CommandLineRun.of("cache", "warm", "--arch", "sm_90a", "--ranks", "4,0");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --ranks = 0");
  }

  @Test
  void aShapeWithoutRanksIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of("cache", "warm", "--arch", "sm_90a", "--experts", "8");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1905: --experts ");
  }

  @Test
  void warmCompilesOnceAndListShowsIt() throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "compiles the kernels that KernelsCompileTest compiles; -Dep4j.full=true runs it");
    LibrarySearch compiler = KernelCompiler.standard().backend().find();
    assumeTrue(compiler.found(), compiler::problem);

    CommandLineRun first = run(ROOMY, "cache", "warm", "--arch", "sm_90a");
    assertThat(first.code()).as(first.err()).isEqualTo(ExitCodes.OK);
    assertThat(first.out()).contains("compiled in");
    CommandLineRun second =
        run(ROOMY, "cache", "warm", "--arch", "sm_90a,sm_90a", "--ranks", "8,8");
    assertThat(second.out()).contains("already in the cache").doesNotContain("compiled in");
    assertThat(second.out().lines()).doesNotHaveDuplicates();
    assertThat(second.out().lines().count()).isEqualTo(first.out().lines().count());
    assertThat(run(ROOMY, "cache", "list").out())
        .contains(PrebuiltKernels.all().getFirst().entry());
  }

  @Test
  void noJobsIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of("cache", "warm", "--arch", "sm_90a", "--jobs", "0");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1900: --jobs = 0");
  }

  private CommandLineRun run(Map<String, String> variables, String... arguments) throws Exception {
    Map<String, String> environment =
        new HashMap<>(
            Map.of(
                CubinCache.DIRECTORY_VARIABLE,
                scratch.resolve("cubins").toString(),
                CubinCache.SIZE_VARIABLE,
                "7"));
    environment.putAll(variables);
    Path outputs = Files.createTempDirectory(scratch, "run");
    try (CliProcess process = CliProcess.start(outputs, environment, arguments)) {
      return process.end(ALL_KERNELS);
    }
  }
}
