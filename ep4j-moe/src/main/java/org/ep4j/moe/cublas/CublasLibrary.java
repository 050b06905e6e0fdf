package org.ep4j.moe.cublas;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.util.Optional;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.SharedLibrary;
import org.ep4j.cuda.driver.compiler.ToolkitPaths;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/** The library of {@link Cublas}, opened when this class is initialised. */
final class CublasLibrary {
  /** Environment variable with the path of the library, or of its directory. */
  static final String VARIABLE = "EP4J_CUBLAS";

  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    NAME = SharedLibrary.first(places().candidates());
    SYMBOLS = NAME.isEmpty() ? null : SharedLibrary.open(NAME);
  }

  private CublasLibrary() {}

  private static ToolkitPaths places() {
    int driver = CudaDriver.find().found() ? CudaDriver.version() / 1000 : 0;
    return new ToolkitPaths(VARIABLE, "libcublas", driver, System.getenv());
  }

  /**
   * Requires the library.
   *
   * @throws EngineUnavailableException if there is none
   */
  static void require() {
    if (SYMBOLS == null) {
      throw new EngineUnavailableException(ErrorCode.CUBLAS_MISSING, places().missing("cuBLAS"));
    }
  }

  /** Address of a function that every version has. */
  static MemorySegment address(String symbol) {
    return find(symbol)
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    ErrorCode.CUBLAS_MISSING,
                    NAME + " has no " + symbol + ": install cuBLAS of CUDA 12 or newer"));
  }

  /** Address of a function that some versions have. */
  static Optional<MemorySegment> find(String symbol) {
    require();
    return SYMBOLS == null ? Optional.empty() : SYMBOLS.find(symbol);
  }
}
