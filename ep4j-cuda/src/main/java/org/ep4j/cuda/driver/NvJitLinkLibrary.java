package org.ep4j.cuda.driver;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import org.jspecify.annotations.Nullable;

/** The library of {@link NvJitLink}, opened when this class is initialised. */
final class NvJitLinkLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    SymbolLookup symbols = null;
    String name = "";
    for (String candidate : NvJitLink.places().candidates()) {
      symbols = SharedLibrary.open(candidate);
      if (symbols != null) {
        name = candidate;
        break;
      }
    }
    SYMBOLS = symbols;
    NAME = name;
  }

  private NvJitLinkLibrary() {}

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Address of a function. */
  static MemorySegment address(String symbol) {
    if (SYMBOLS == null) {
      throw new IllegalStateException("no library: NvJitLink.find() says why");
    }
    return SYMBOLS
        .find(symbol)
        .orElseThrow(
            () -> new IllegalStateException(NAME + " has no " + symbol + ": install a newer one"));
  }
}
