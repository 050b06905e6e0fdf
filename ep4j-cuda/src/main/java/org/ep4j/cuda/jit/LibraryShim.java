package org.ep4j.cuda.jit;

import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.driver.compiler.NvJitLink;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;

/**
 * Device functions of a library, wrapped under names of ep4j. Library headers require nvcc and
 * differ between versions; therefore a file that includes them is compiled to intermediate code
 * once per version, on a machine with nvcc and the headers, stored with the compiled kernels, and
 * linked to kernels on machines that have neither.
 *
 * @param library name and version, {@code NCCL 2.28.9}
 * @param source text that includes the headers and rejects those of other versions
 * @param defines macros with the version
 * @param headers directories of the headers; empty if they are missing
 * @param remedy what to install or set if they are missing: the file and its search path
 */
public record LibraryShim(
    String library, String source, Map<String, String> defines, List<Path> headers, String remedy) {
  private static final String ENTRY = "shim.cu";

  /** Copies the collections. */
  public LibraryShim {
    defines = Map.copyOf(defines);
    headers = List.copyOf(headers);
  }

  /** Whether the shim can be compiled here; a cache may contain it in any case. */
  public LibrarySearch compiler() {
    return compiling().find();
  }

  /**
   * The intermediate code.
   *
   * @throws EngineUnavailableException with the remedy if no cache contains the shim and it cannot
   *     be compiled here
   */
  public DevicePart compile(String architecture) {
    KernelSpec spec =
        new KernelSpec(
            new KernelSources(ENTRY, new TreeMap<>(Map.of(ENTRY, source))),
            new TreeMap<>(defines),
            architecture);
    try {
      byte[] image = KernelCompiler.beside(compiling()).compile(spec).image();
      return new DevicePart(NvJitLink.Input.FATBIN, image, "shim of " + library);
    } catch (EngineUnavailableException | UncheckedIOException e) {
      throw new EngineUnavailableException(
          ErrorCode.KERNEL_COMPILER_MISSING,
          "no device functions of %s for %s: compile them from %s, here or with ep4j cache warm on another machine. %s"
              .formatted(library, architecture, remedy, e.getMessage()));
    }
  }

  private CompilerBackend compiling() {
    return new Compiling(this, new NvccBackend(NvccBackend.Output.LTO_IR, headers));
  }

  /** nvcc, if the headers are available too. */
  private record Compiling(LibraryShim shim, NvccBackend nvcc) implements CompilerBackend {
    @Override
    public LibrarySearch find() {
      return shim.headers.isEmpty()
          ? new LibrarySearch("", "no device headers of " + shim.library + "")
          : nvcc.find();
    }

    @Override
    public String identity() {
      return nvcc.identity() + "-lto";
    }

    @Override
    public Compiled compile(KernelSpec spec) {
      return nvcc.compile(spec);
    }
  }
}
