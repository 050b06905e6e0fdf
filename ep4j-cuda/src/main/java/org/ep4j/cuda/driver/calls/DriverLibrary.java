package org.ep4j.cuda.driver.calls;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.util.List;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * The driver library, opened when this class is initialised. Binding classes get function addresses
 * here; use them only after {@link CudaDriver#find} has reported a usable driver.
 */
final class DriverLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    NAME = SharedLibrary.first(candidates(System.getenv(CudaDriver.LIBRARY_VARIABLE)));
    SYMBOLS = NAME.isEmpty() ? null : SharedLibrary.open(NAME);
  }

  private DriverLibrary() {}

  /** Candidates for the library: the value of the variable, or else the usual names. */
  static List<String> candidates(@Nullable String variable) {
    return variable == null || variable.isEmpty()
        ? List.of("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")
        : List.of(variable);
  }

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Whether the library has a function. */
  static boolean has(DriverFunction function) {
    return SYMBOLS != null && SYMBOLS.find(function.symbol()).isPresent();
  }

  /** Address of a function. */
  static MemorySegment address(DriverFunction function) {
    if (SYMBOLS == null) {
      throw new IllegalUseException(
          ErrorCode.NATIVE_LIBRARY_NOT_LOADED,
          "the CUDA driver is not loaded: CudaDriver.find() reports the reason");
    }
    return SYMBOLS
        .find(function.symbol())
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    ErrorCode.NATIVE_FUNCTION_MISSING,
                    NAME + " has no " + function.symbol() + ": install a newer version"));
  }
}
