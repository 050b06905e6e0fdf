package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

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
import org.ep4j.cuda.driver.Nvrtc;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Every kernel of {@link PrebuiltKernels} compiles for every architecture that ep4j knows: with
 * NVRTC where it is, as it will be at run time, otherwise with nvcc. Skipped where neither is.
 */
class KernelsCompileTest {
  private static final List<String> ARCHITECTURES = List.of("sm_80", "sm_90a", "sm_100a");
  private static final Pattern SYSTEM_INCLUDE =
      Pattern.compile("^[ \\t]*#[ \\t]*include[ \\t]*<", Pattern.MULTILINE);

  private static final ExecutorService CORES =
      Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors());

  @AfterAll
  static void leaveNoCompilerBehind() {
    CORES.shutdownNow();
  }

  /** All are begun at once: a compiler uses one core. */
  @TestFactory
  Stream<DynamicTest> everyKernelCompilesForEveryArchitecture() {
    CompilerBackend backend = backend();
    System.out.println(
        "kernels compiled with " + backend.identity() + " (" + backend.find().library() + "):");
    List<DynamicTest> tests = new ArrayList<>();
    for (PrebuiltKernel kernel : PrebuiltKernels.all()) {
      for (String architecture : ARCHITECTURES) {
        Future<?> compiled = CORES.submit(() -> compile(backend, kernel, architecture));
        tests.add(
            DynamicTest.dynamicTest(
                kernel.name() + " for " + architecture, () -> outcome(compiled)));
      }
    }
    return tests.stream();
  }

  private static void outcome(Future<?> compiled) throws Throwable {
    try {
      compiled.get();
    } catch (ExecutionException e) {
      throw e.getCause();
    }
  }

  private static void compile(CompilerBackend backend, PrebuiltKernel kernel, String architecture) {
    KernelSpec spec = fresh(kernel.spec(architecture));
    assumeTrue(
        !(backend instanceof NvrtcBackend)
            || Nvrtc.architectures().contains(spec.architectureNumber()),
        () -> "NVRTC " + Nvrtc.version() + " does not know " + architecture);
    CompilerBackend.Compiled compiled = backend.compile(spec);
    assertThat(compiled.cubin()).startsWith(0x7f, 'E', 'L', 'F');
    List<KernelResources> resources = KernelResources.parse(compiled.log());
    assertThat(resources).as(compiled.log()).isNotEmpty();
    for (KernelResources each : resources) {
      System.out.println("  " + kernel.name() + " " + architecture + ": " + each);
      if (kernel.mayNotSpill()) {
        assertThat(each.spills()).as(each.toString()).isFalse();
      }
    }
  }

  /** NVRTC 13 keeps results and says nothing about registers the second time. */
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

  /** NVRTC on a user's machine has no directories to search. */
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
