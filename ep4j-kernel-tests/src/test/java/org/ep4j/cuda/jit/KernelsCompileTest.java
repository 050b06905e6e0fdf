package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Every kernel of {@link PrebuiltKernels} compiles: with NVRTC if available, as at run time,
 * otherwise with nvcc. Skipped without both. By default for one architecture and without the
 * kernels of one shape, which differ only in constants; with {@code -Dep4j.full=true} all of them
 * for every architecture that ep4j supports. Kernels already compiled from the same sources by the
 * same compiler are not compiled again.
 */
class KernelsCompileTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final List<String> ARCHITECTURES =
      FULL ? List.of("sm_80", "sm_90a", "sm_100a") : List.of("sm_90a");
  private static final Pattern SYSTEM_INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]*<", Pattern.MULTILINE);

  private static final ExecutorService CORES =
      Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors());

  @AfterAll
  static void leaveNoCompilerBehind() {
    CORES.shutdownNow();
  }

  /** All compilations start at once: each uses one core. */
  @TestFactory
  Stream<DynamicTest> everyKernelCompiles() {
    CompilerBackend backend = backend();
    System.out.println(
        "kernels compiled with " + backend.identity() + " (" + backend.find().library() + "):");
    List<DynamicTest> tests = new ArrayList<>();
    for (PrebuiltKernel kernel : kernels()) {
      for (String architecture : ARCHITECTURES) {
        Future<?> compiled = CORES.submit(() -> compile(backend, kernel, architecture));
        tests.add(
            DynamicTest.dynamicTest(
                kernel.name() + " for " + architecture, () -> outcome(compiled)));
      }
    }
    return tests.stream();
  }

  /**
   * By default one kernel of each protocol. The others differ by a constant: rows by rank instead
   * of by expert, rows times their weights, one shape instead of all, flags instead of packed
   * flags, commands instead of stores.
   */
  static List<PrebuiltKernel> kernels() {
    return PrebuiltKernels.all().stream().filter(kernel -> FULL || usual(kernel)).toList();
  }

  private static boolean usual(PrebuiltKernel kernel) {
    Map<String, String> defines = kernel.defines();
    boolean variant =
        defines.containsKey("EP4J_HIDDEN")
            || kernel.entry().contains("_rank_major")
            || kernel.entry().contains("weighted_")
            || kernel.name().equals("put probe by rings");
    boolean oneNode = kernel.entry().matches("lowlatency/low_latency_(dispatch|combine)\\.cu");
    return !variant && (!oneNode || defines.equals(PrebuiltKernels.LL_PACKETS));
  }

  private static void outcome(Future<?> compiled) throws Throwable {
    try {
      compiled.get();
    } catch (ExecutionException e) {
      throw e.getCause();
    }
  }

  private static void compile(CompilerBackend backend, PrebuiltKernel kernel, String architecture) {
    KernelSpec spec = kernel.spec(architecture);
    assumeTrue(
        !(backend instanceof NvrtcBackend)
            || Nvrtc.architectures().contains(spec.architectureNumber()),
        () -> "NVRTC " + Nvrtc.version() + " does not know " + architecture);
    List<KernelResources> resources = KernelResources.parse(log(backend, spec));
    assertThat(resources).as(kernel.name()).isNotEmpty();
    for (KernelResources each : resources) {
      System.out.println("  " + kernel.name() + " " + architecture + ": " + each);
      if (kernel.mayNotSpill()) {
        assertThat(each.spills()).as(each.toString()).isFalse();
      }
    }
  }

  /** The compiler's log of a kernel, from now or from an earlier build. */
  private static String log(CompilerBackend backend, KernelSpec spec) {
    String key = BuildCache.key(List.of("log", spec.key(backend.identity())));
    return BuildCache.get(key)
        .map(log -> new String(log, StandardCharsets.UTF_8))
        .orElseGet(
            () -> {
              CompilerBackend.Compiled compiled = backend.compile(fresh(spec));
              assertThat(compiled.cubin()).startsWith(0x7f, 'E', 'L', 'F');
              BuildCache.put(
                  key, spec.description(), compiled.log().getBytes(StandardCharsets.UTF_8));
              return compiled.log();
            });
  }

  /** NVRTC 13 caches results and reports no registers for a repeated compilation. */
  private static KernelSpec fresh(KernelSpec spec) {
    TreeMap<String, String> defines = new TreeMap<>(spec.defines());
    defines.put("EP4J_COMPILED_ANEW", String.valueOf(System.nanoTime()));
    return new KernelSpec(spec.sources(), defines, spec.architecture());
  }

  private static CompilerBackend backend() {
    NvrtcBackend nvrtc = new NvrtcBackend();
    if (nvrtc.find().found()) {
      return nvrtc;
    }
    NvccBackend nvcc = new NvccBackend();
    if (!nvcc.find().found()) {
      String reason =
          "no kernel compiled: " + nvrtc.find().problem() + "; " + nvcc.find().problem();
      System.out.println(reason); // CI repeats it
      assumeTrue(false, reason);
    }
    return nvcc;
  }

  /** NVRTC on a user's machine has no include directories. */
  @Test
  void noKernelIncludesHeadersOfTheSystem() {
    for (PrebuiltKernel kernel : PrebuiltKernels.all()) {
      Map<String, String> files = kernel.spec("sm_90a").sources().files();
      files.forEach(
          (name, text) ->
              assertThat(SYSTEM_INCLUDE.matcher(text).find())
                  .as(name + " includes a header that is not in the jar")
                  .isFalse());
    }
  }

  @Test
  void everyNameIsUsedOnce() {
    assertThat(PrebuiltKernels.all()).extracting(PrebuiltKernel::name).doesNotHaveDuplicates();
  }
}
