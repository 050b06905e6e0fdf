package org.ep4j.cuda.jit;

import org.ep4j.cuda.driver.calls.LibrarySearch;

/** Compiles source to cubins. */
public interface CompilerBackend {
  /**
   * Result of a compilation.
   *
   * @param cubin the binary
   * @param log output of the compiler, with the resources of each kernel
   */
  record Compiled(byte[] cubin, String log) {}

  /** Whether the compiler is usable, with the reason if not. */
  LibrarySearch find();

  /** Name and version as part of a file name, {@code nvrtc13.0}; requires a usable compiler. */
  String identity();

  /**
   * Compiles.
   *
   * @throws org.ep4j.cuda.driver.calls.CudaException with the compiler's output if the source is
   *     wrong
   */
  Compiled compile(KernelSpec spec);
}
