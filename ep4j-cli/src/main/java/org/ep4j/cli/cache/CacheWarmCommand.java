package org.ep4j.cli.cache;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Units;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaDriver;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.cuda.jit.KernelSpec;
import org.ep4j.cuda.jit.PrebuiltKernel;
import org.ep4j.cuda.jit.PrebuiltKernels;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Compiles the kernels for common shapes before anybody waits for them. */
@Command(
    name = "warm",
    description = {
      "Compile the kernels for common shapes into the cache.",
      "",
      "Needs NVRTC or nvcc, but no GPU; a directory filled here can be copied to machines that have",
      "neither.",
      ""
    })
final class CacheWarmCommand implements Callable<Integer> {
  @Option(
      names = "--arch",
      split = ",",
      paramLabel = "sm_90a",
      description = "What to compile for; default: the GPUs of this machine.")
  private @Nullable List<String> architectures;

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    PrintWriter out = CommandSpecs.require(spec).commandLine().getOut();
    KernelCompiler compiler = KernelCompiler.standard();
    List<String> wanted = architectures == null ? ofThisMachine() : architectures;
    List<KernelSpec> specs = new ArrayList<>();
    for (String architecture : wanted) {
      for (PrebuiltKernel kernel : PrebuiltKernels.all()) {
        specs.add(kernel.spec(architecture)); // a bad name is refused before anything is compiled
      }
    }
    compiler.backend().find().require();
    for (KernelSpec kernel : specs) {
      KernelCompiler.Cubin cubin = compiler.compile(kernel);
      String what =
          switch (cubin.origin()) {
            case COMPILED -> "compiled in " + Units.micros(cubin.nanos() / 1e3);
            case DISK -> "was there";
            case SHIPPED -> "came with ep4j";
            case MEMORY -> "the same again";
          };
      out.println(kernel.description() + ": " + what + ", " + Units.bytes(cubin.image().length));
      out.flush();
    }
    out.println("kernels: " + specs.size() + "; cache: " + compiler.cache().directory());
    return ExitCodes.OK;
  }

  private static List<String> ofThisMachine() {
    TreeSet<String> found = new TreeSet<>();
    for (int device = 0; device < CudaDevice.count(); device++) {
      found.add(DeviceProperties.of(device).architecture());
    }
    if (found.isEmpty()) {
      String problem = CudaDriver.find().problem();
      throw new CommandFailure(
          ExitCodes.UNAVAILABLE,
          "no GPU to compile for: name one with --arch sm_90a"
              + (problem.isEmpty() ? "" : " (" + problem + ")"));
    }
    return List.copyOf(found);
  }
}
