package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The driver library, opened when this class is first used. Binding classes take their functions'
 * addresses from here; none of them may be touched before {@link CudaDriver#find} said that the
 * driver is there.
 */
final class DriverLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    SymbolLookup symbols = null;
    String name = "";
    for (String candidate : candidates(System.getenv(CudaDriver.LIBRARY_VARIABLE))) {
      symbols = SharedLibrary.open(candidate);
      if (symbols != null) {
        name = candidate;
        break;
      }
    }
    SYMBOLS = symbols;
    NAME = name;
  }

  private DriverLibrary() {}

  /** Where the library is looked for: what the variable says, or else the usual places. */
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
      throw new IllegalStateException("no driver library: CudaDriver.find() says why");
    }
    return SYMBOLS
        .find(function.symbol())
        .orElseThrow(
            () ->
                new IllegalStateException(
                    NAME + " has no " + function.symbol() + ": install a newer NVIDIA driver"));
  }
}
