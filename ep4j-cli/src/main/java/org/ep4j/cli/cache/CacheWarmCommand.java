package org.ep4j.cli.cache;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelSpec;
import org.ep4j.cuda.jit.LibraryShim;
import org.ep4j.cuda.jit.PrebuiltKernel;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.moe.gpu.MoeSources;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Compiles the kernels for common shapes ahead of their first use. */
@Command(
    name = "warm",
    sortOptions = false,
    description = {
      "Compile the kernels for common shapes into the cache.",
      "",
      "Needs NVRTC or nvcc, but no GPU. Machines without a compiler can use a copy of the"
          + " directory. Kernels within a node depend on the shape of a buffer: --ranks and the"
          + " options below it describe one, so that opening such a buffer does not compile."
          + " --hidden and --masking concern low latency alone.",
      ""
    })
final class CacheWarmCommand implements Callable<Integer> {
  @Option(
      names = "--arch",
      split = ",",
      paramLabel = "sm_90a",
      description = "Target architectures; default: the GPUs of this machine.")
  private @Nullable List<String> architectures;

  @Option(
      names = "--ranks",
      split = ",",
      paramLabel = "N",
      description = "Also compile kernels for these numbers of ranks.")
  private @Nullable List<Integer> ranks;

  @Option(
      names = "--hidden",
      paramLabel = "N",
      defaultValue = "7168",
      description = "With --ranks: elements of a row; default ${DEFAULT-VALUE}.")
  private int hidden;

  @Option(
      names = "--experts",
      paramLabel = "N",
      defaultValue = "256",
      description = "With --ranks: experts of all ranks; default ${DEFAULT-VALUE}.")
  private int experts;

  @Option(
      names = "--topk",
      paramLabel = "N",
      defaultValue = "8",
      description = "With --ranks: experts of each token; default ${DEFAULT-VALUE}.")
  private int topK;

  @Option(names = "--masking", description = "With --ranks: for buffers that mask late ranks.")
  private boolean masking;

  @Option(
      names = "--jobs",
      paramLabel = "N",
      description = "Kernels to compile at the same time; default: the number of cores.")
  private int jobs = Runtime.getRuntime().availableProcessors();

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() throws InterruptedException {
    requirePositive("--jobs", jobs);
    refuseShapeWithoutRanks();
    KernelCompiler compiler = KernelCompiler.standard();
    // Sets: the options may repeat a shape or an architecture.
    Set<String> wanted =
        architectures == null ? ofThisMachine() : new LinkedHashSet<>(architectures);
    List<KernelSpec> specs = new ArrayList<>();
    Set<PrebuiltKernel> kernels = new LinkedHashSet<>(PrebuiltKernels.all());
    for (int number : ranks == null ? List.<Integer>of() : ranks) {
      requirePositive("--ranks", number);
      requirePositive("--hidden", hidden);
      requirePositive("--experts", experts);
      requirePositive("--topk", topK);
      kernels.addAll(PrebuiltKernels.highThroughput(number, experts, topK));
      kernels.addAll(PrebuiltKernels.lowLatency(hidden, number, experts, topK, masking));
    }
    for (String architecture : wanted) {
      require(
          KernelSpec.isArchitecture(architecture),
          "--arch",
          architecture,
          KernelSpec.ARCHITECTURES);
      for (PrebuiltKernel kernel : kernels) {
        specs.add(kernel.spec(architecture));
      }
      specs.add(MoeSources.spec(architecture));
    }
    var _ = compiler.cache().requireDirectory();
    compiler.backend().find().require();
    compile(compiler, specs);
    wanted.forEach(this::shims);
    return ExitCodes.OK;
  }

  /**
   * Compiles device code of the libraries whose headers are installed. Only puts of kernels need
   * it.
   */
  private void shims(String architecture) {
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    for (BackendProvider provider : Backends.providers()) {
      LibraryShim shim = provider.shim();
      if (shim != null) {
        out.println(
            "device functions of %s %s: %s"
                .formatted(shim.library(), architecture, made(shim, architecture)));
        out.flush();
      }
    }
  }

  private static String made(LibraryShim shim, String architecture) {
    try {
      return Units.bytes(shim.compile(architecture).image().length);
    } catch (EngineUnavailableException e) {
      return "skipped. " + e.getMessage();
    }
  }

  /** Reports the kernels in the order of the list; the first failure cancels the others. */
  private void compile(KernelCompiler compiler, List<KernelSpec> specs)
      throws InterruptedException {
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    ExecutorService pool = Executors.newFixedThreadPool(Math.min(jobs, specs.size()));
    try {
      List<Future<KernelCompiler.Cubin>> cubins = new ArrayList<>();
      for (KernelSpec kernel : specs) {
        cubins.add(pool.submit(() -> compiler.compile(kernel)));
      }
      for (int i = 0; i < specs.size(); i++) {
        out.println(specs.get(i).description() + ": " + reported(cubins.get(i).get()));
        out.flush();
      }
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw new IllegalStateException(e.getCause());
    } finally {
      pool.shutdownNow();
    }
    out.println("kernels: " + specs.size() + "; cache: " + compiler.cache().directory());
  }

  private static String reported(KernelCompiler.Cubin cubin) {
    String origin =
        switch (cubin.origin()) {
          case COMPILED -> "compiled in " + Units.micros(cubin.nanos() / 1e3);
          case DISK -> "already in the cache";
          case SHIPPED -> "shipped with ep4j";
          case MEMORY -> "repeated";
        };
    return origin + ", " + Units.bytes(cubin.image().length);
  }

  /** Refuses options of a shape without a number of ranks: they would have no effect. */
  private void refuseShapeWithoutRanks() {
    CommandSpec command = CommandSpecs.require(spec);
    for (String option : List.of("--hidden", "--experts", "--topk", "--masking")) {
      CommandSpecs.check(
          command,
          ranks != null || !command.commandLine().getParseResult().hasMatchedOption(option),
          ErrorCode.INAPPLICABLE_OPTION,
          option + " has an effect only with --ranks: add --ranks, or leave it out");
    }
  }

  private static void requirePositive(String option, int value) {
    require(value >= 1, option, value, ">= 1");
  }

  private static void require(boolean holds, String option, Object value, String limit) {
    if (!holds) {
      throw new CommandFailure(
          ErrorCode.BAD_OPTION_VALUE, ExitCodes.USAGE, CommandSpecs.badValue(option, value, limit));
    }
  }

  private static Set<String> ofThisMachine() {
    TreeSet<String> found = new TreeSet<>();
    for (int device = 0; device < CudaDevice.count(); device++) {
      found.add(DeviceProperties.of(device).architecture());
    }
    if (found.isEmpty()) {
      String problem = CudaDriver.find().problem();
      throw new CommandFailure(
          ErrorCode.NO_TARGET_GPU,
          ExitCodes.UNAVAILABLE,
          "no GPU to compile for: name an architecture with --arch sm_90a"
              + (problem.isEmpty() ? "" : " (" + problem + ")"));
    }
    return found;
  }
}
