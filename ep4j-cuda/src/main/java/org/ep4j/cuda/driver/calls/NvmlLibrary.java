package org.ep4j.cuda.driver.calls;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The management library of the driver, opened when this class is initialised. */
final class NvmlLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;
  private static final List<String> CANDIDATES =
      candidates(System.getenv(NvmlCalls.LIBRARY_VARIABLE));

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    NAME = SharedLibrary.first(CANDIDATES);
    SYMBOLS = NAME.isEmpty() ? null : SharedLibrary.open(NAME);
  }

  private NvmlLibrary() {}

  /** Candidates for the library: the value of the variable, or else the usual names. */
  private static List<String> candidates(@Nullable String variable) {
    return variable == null || variable.isEmpty()
        ? List.of("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
        : List.of(variable);
  }

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Why there is no library. */
  static String missing() {
    return "there is no " + String.join(" or ", CANDIDATES);
  }

  /** Address of a function; empty without the library or in an older one. */
  static Optional<MemorySegment> address(String symbol) {
    return SYMBOLS == null ? Optional.empty() : SYMBOLS.find(symbol);
  }
}
