package org.ep4j.cuda.driver.compiler;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import org.ep4j.cuda.driver.calls.SharedLibrary;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/** The library of {@link NvJitLink}, opened when this class is initialised. */
final class NvJitLinkLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    NAME = SharedLibrary.first(NvJitLink.places().candidates());
    SYMBOLS = NAME.isEmpty() ? null : SharedLibrary.open(NAME);
  }

  private NvJitLinkLibrary() {}

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Address of a function. */
  static MemorySegment address(String symbol) {
    if (SYMBOLS == null) {
      throw new IllegalUseException(
          ErrorCode.NATIVE_LIBRARY_NOT_LOADED,
          "nvJitLink is not loaded: NvJitLink.find() reports the reason");
    }
    return SYMBOLS
        .find(symbol)
        .orElseThrow(
            () ->
                new EngineUnavailableException(
                    ErrorCode.NATIVE_FUNCTION_MISSING,
                    NAME + " has no " + symbol + ": install a newer version"));
  }
}
