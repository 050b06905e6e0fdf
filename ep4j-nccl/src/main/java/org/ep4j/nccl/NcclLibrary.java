package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import org.ep4j.cuda.backend.BackendLibrary;
import org.ep4j.cuda.driver.calls.SharedLibrary;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/** The library, opened when this class is initialised; stays open until the process ends. */
@SuppressWarnings("restricted") // links native functions
final class NcclLibrary {
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    SymbolLookup best = null;
    String name = "";
    int newest = -1;
    // Machines often have several copies, for example of the system and of Python: an old one must
    // not hide a newer one.
    for (String candidate : places().candidates()) {
      SymbolLookup symbols = SharedLibrary.open(candidate);
      int version = symbols == null ? -1 : version(symbols);
      if (version > newest) {
        best = symbols;
        name = candidate;
        newest = version;
      }
      if (newest >= NcclLayouts.KNOWN) {
        break;
      }
    }
    SYMBOLS = best;
    NAME = name;
  }

  private NcclLibrary() {}

  static BackendLibrary places() {
    return new BackendLibrary(
        "libnccl.so.2",
        "EP4J_NCCL_HOME",
        List.of("NCCL_HOME", "NCCL_DIR"),
        "NCCL 2.28.9 or newer (package libnccl2 of NVIDIA, or nvidia-nccl-cu13 of Python)",
        System.getenv());
  }

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /**
   * Version code of the library; 0 if not reported. Used before {@link NcclCalls}, which needs all
   * functions.
   */
  static int version() {
    return SYMBOLS == null ? 0 : version(SYMBOLS);
  }

  private static int version(SymbolLookup symbols) {
    MemorySegment function = symbols.find(NcclFunction.GET_VERSION.symbol()).orElse(null);
    if (function == null) {
      return 0;
    }
    MethodHandle handle =
        Linker.nativeLinker().downcallHandle(function, NcclFunction.GET_VERSION.descriptor());
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      int result = (int) handle.invokeExact(out.address());
      return result == NcclLayouts.SUCCESS ? out.get(ValueLayout.JAVA_INT, 0) : 0;
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Whether the library has a function. */
  static boolean has(String symbol) {
    return SYMBOLS != null && SYMBOLS.find(symbol).isPresent();
  }

  /** Address of a function. */
  static MemorySegment address(String symbol) {
    if (SYMBOLS == null) {
      throw new IllegalUseException(
          ErrorCode.NATIVE_LIBRARY_NOT_LOADED, "NCCL is not loaded: the probe reports the reason");
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
