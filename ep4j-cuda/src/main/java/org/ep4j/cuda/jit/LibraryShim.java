package org.ep4j.cuda.jit;

import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.driver.LibrarySearch;
import org.ep4j.cuda.driver.NvJitLink;

/**
 * Device functions of a library behind names of ep4j's own. Headers of libraries are for nvcc, and
 * what they say differs between versions; so a file that includes them is compiled to intermediate
 * code once for each version, where nvcc and the headers are, kept with the compiled kernels, and
 * linked to kernels on machines that have neither.
 *
 * @param library name and version, {@code NCCL 2.28.9}
 * @param source text that includes the headers, and refuses those of another version
 * @param defines by which the source knows the version
 * @param headers where the headers lie; empty if they are not here
 * @param remedy what to install or set where they are not: the file, and where it is looked for
 */
public record LibraryShim(
    String library, String source, Map<String, String> defines, List<Path> headers, String remedy) {
  private static final String ENTRY = "shim.cu";

  /** Copies. */
  public LibraryShim {
    defines = Map.copyOf(defines);
    headers = List.copyOf(headers);
  }

  /** Whether it can be compiled here; it may be in a cache in any case. */
  public LibrarySearch compiler() {
    return compiling().find();
  }

  /**
   * The intermediate code.
   *
   * @throws EngineUnavailableException with the remedy, if no cache has it and it cannot be
   *     compiled here
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
          "no device functions of %s for %s: they are compiled from %s, here or by ep4j cache warm elsewhere. %s"
              .formatted(library, architecture, remedy, e.getMessage()));
    }
  }

  private CompilerBackend compiling() {
    return new Compiling(this, new NvccBackend(NvccBackend.Output.LTO_IR, headers));
  }

  /** nvcc, where the headers are, too. */
  private record Compiling(LibraryShim shim, NvccBackend nvcc) implements CompilerBackend {
    @Override
    public LibrarySearch find() {
      return shim.headers.isEmpty()
          ? new LibrarySearch("", "no device headers of " + shim.library + " here")
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
