package org.ep4j.cuda.jit;

import org.ep4j.cuda.driver.LibrarySearch;

/** Turns source into cubins. */
public interface CompilerBackend {
  /**
   * What came of it.
   *
   * @param cubin the binary
   * @param log what the compiler said, with the resources that each kernel uses
   */
  record Compiled(byte[] cubin, String log) {}

  /** Whether it can be used here, and if not, why. */
  LibrarySearch find();

  /** Name and version as part of a file name, {@code nvrtc13.0}; only where it can be used. */
  String identity();

  /**
   * Compiles.
   *
   * @throws org.ep4j.cuda.driver.CudaException with the compiler's words if the source is wrong
   */
  Compiled compile(KernelSpec spec);
}
