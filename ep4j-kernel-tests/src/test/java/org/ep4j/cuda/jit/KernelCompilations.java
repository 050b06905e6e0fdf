package org.ep4j.cuda.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.junit.jupiter.api.DynamicTest;

/**
 * Compiles kernels on all cores: with NVRTC if available, as at run time, otherwise with nvcc;
 * skips the tests without both. Fails where a kernel that moves rows spills registers. Kernels
 * already compiled from the same sources by the same compiler are not compiled again.
 */
final class KernelCompilations {
  /**
   * Leaves out most optimizations, from CUDA 12.9 on. The compiler and the assembler report the
   * same errors, but the registers and spills of the code say nothing about the optimized kernel.
   */
  private static final String FEW_OPTIMIZATIONS = "--Ofast-compile";

  private final CompilerBackend backend = backend();
  private final boolean optimizesAll;
  private final Path directory;

  /**
   * Compilations that have not started.
   *
   * @param optimizesAll whether kernels that {@link #takeLong} are optimized, too
   * @param directory for files of the compiler; the caller deletes it
   */
  KernelCompilations(boolean optimizesAll, Path directory)
      throws IOException, InterruptedException {
    this.directory = directory;
    this.optimizesAll =
        optimizesAll
            || !(backend instanceof NvccBackend)
            || !Nvcc.has(backend.find().library(), FEW_OPTIMIZATIONS, directory);
  }

  /** Whether the optimization of a kernel takes most of the time of its compilation. */
  static boolean takeLong(PrebuiltKernel kernel) {
    return kernel
        .entry()
        .matches("(combine|internode|lowlatency)/.*|dispatch/expert_dispatch\\.cu");
  }

  /** A test for each kernel and architecture. All start at once: each uses one core. */
  Stream<DynamicTest> tests(List<PrebuiltKernel> kernels, List<String> architectures) {
    System.out.println(
        "kernels compiled with " + backend.identity() + " (" + backend.find().library() + "):");
    ExecutorService cores =
        Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors());
    List<DynamicTest> tests = new ArrayList<>();
    for (PrebuiltKernel kernel : kernels) {
      for (String architecture : architectures) {
        Future<?> compiled =
            cores.submit(
                () -> {
                  compile(kernel, architecture);
                  return null;
                });
        tests.add(
            DynamicTest.dynamicTest(
                kernel.name() + " for " + architecture, () -> outcome(compiled)));
      }
    }
    return tests.stream().onClose(cores::shutdownNow); // no compiler outlives the tests
  }

  private static void outcome(Future<?> compiled) throws Throwable {
    try {
      compiled.get();
    } catch (ExecutionException e) {
      throw e.getCause();
    }
  }

  private void compile(PrebuiltKernel kernel, String architecture)
      throws IOException, InterruptedException {
    KernelSpec spec = kernel.spec(architecture);
    if (takeLong(kernel) && !optimizesAll) {
      compileWithFewOptimizations(spec);
      System.out.println("  " + kernel.name() + " " + architecture + ": few optimizations");
      return;
    }
    assumeTrue(
        !(backend instanceof NvrtcBackend)
            || Nvrtc.architectures().contains(spec.architectureNumber()),
        () -> "NVRTC " + Nvrtc.version() + " does not know " + architecture);
    List<KernelResources> resources = KernelResources.parse(log(spec));
    assertThat(resources).as(kernel.name()).isNotEmpty();
    for (KernelResources each : resources) {
      System.out.println("  " + kernel.name() + " " + architecture + ": " + each);
      if (kernel.mayNotSpill()) {
        assertThat(each.spills()).as(each.toString()).isFalse();
      }
    }
  }

  private void compileWithFewOptimizations(KernelSpec spec)
      throws IOException, InterruptedException {
    String key = BuildCache.key(List.of(FEW_OPTIMIZATIONS, spec.key(backend.identity())));
    if (BuildCache.get(key).isEmpty()) {
      Path cubin =
          Nvcc.compile(
              backend.find().library(), spec, List.of(FEW_OPTIMIZATIONS, "max"), directory);
      assertIsCubin(Files.readAllBytes(cubin));
      BuildCache.put(key, spec.description(), new byte[] {1});
    }
  }

  /** The compiler's log of an optimized kernel, from now or from an earlier build. */
  private String log(KernelSpec spec) {
    String key = BuildCache.key(List.of("log", spec.key(backend.identity())));
    return BuildCache.get(key)
        .map(log -> new String(log, StandardCharsets.UTF_8))
        .orElseGet(
            () -> {
              CompilerBackend.Compiled compiled = backend.compile(fresh(spec));
              assertIsCubin(compiled.cubin());
              BuildCache.put(
                  key, spec.description(), compiled.log().getBytes(StandardCharsets.UTF_8));
              return compiled.log();
            });
  }

  private static void assertIsCubin(byte[] file) {
    assertThat(file).startsWith(0x7f, 'E', 'L', 'F');
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
}
