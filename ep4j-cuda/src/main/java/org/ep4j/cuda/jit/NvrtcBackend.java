package org.ep4j.cuda.jit;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.compiler.Nvrtc;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;

/** Compiles in this process. */
final class NvrtcBackend implements CompilerBackend {
  /** Makes the log contain registers and spills. */
  private static final String REPORT_RESOURCES = "--ptxas-options=-v";

  @Override
  public LibrarySearch find() {
    return Nvrtc.find();
  }

  @Override
  public String identity() {
    return "nvrtc" + Nvrtc.version();
  }

  @Override
  public Compiled compile(KernelSpec spec) {
    checkArchitecture(spec);
    List<String> options = new ArrayList<>(spec.options());
    options.add(REPORT_RESOURCES);
    Nvrtc.Result result =
        Nvrtc.compile(
            spec.sources().entry(),
            spec.sources().text(),
            spec.sources().headers(),
            options,
            Nvrtc.Output.CUBIN);
    return new Compiled(result.image(), result.log());
  }

  private static void checkArchitecture(KernelSpec spec) {
    int number = spec.architectureNumber();
    if (!Nvrtc.architectures().contains(number)) {
      throw new EngineUnavailableException(
          ErrorCode.KERNEL_ARCHITECTURE,
          "NVRTC "
              + Nvrtc.version()
              + " in "
              + Nvrtc.find().library()
              + " does not compile for "
              + spec.architecture()
              + "; it supports "
              + Nvrtc.architectures()
              + ": install another version, or set its path in "
              + Nvrtc.LIBRARY_VARIABLE);
    }
  }
}
