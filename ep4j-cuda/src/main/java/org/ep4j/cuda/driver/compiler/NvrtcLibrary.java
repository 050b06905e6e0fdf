package org.ep4j.cuda.driver.compiler;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.cuda.driver.calls.SharedLibrary;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/** The library of {@link Nvrtc}, opened when this class is initialised. */
final class NvrtcLibrary {
  private static final String BUILTINS = "libnvrtc-builtins.so.*";
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name or path of the library; empty if there is none. */
  private static final String NAME;

  static {
    SymbolLookup symbols = null;
    String name = "";
    for (String candidate : Nvrtc.places().candidates()) {
      openBuiltins(candidate);
      symbols = SharedLibrary.open(candidate);
      if (symbols != null) {
        name = candidate;
        break;
      }
    }
    SYMBOLS = symbols;
    NAME = name;
  }

  private NvrtcLibrary() {}

  /**
   * NVRTC opens a second library by name when it compiles, and does not search its own directory.
   * An already open library is found. If NVRTC is on the loader path, the second library is too.
   */
  private static void openBuiltins(String library) {
    Path directory = Path.of(library).getParent();
    if (directory == null || !Files.isDirectory(directory)) {
      return;
    }
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, BUILTINS)) {
      for (Path file : files) {
        SymbolLookup ignored = SharedLibrary.open(file.toString());
      }
    } catch (IOException | DirectoryIteratorException e) {
      return; // NVRTC then reports the missing library itself
    }
  }

  /** Name or path of the library; empty if there is none. */
  static String name() {
    return NAME;
  }

  /** Address of a function. */
  static MemorySegment address(String symbol) {
    if (SYMBOLS == null) {
      throw new IllegalUseException(
          ErrorCode.NATIVE_LIBRARY_NOT_LOADED,
          "NVRTC is not loaded: Nvrtc.find() reports the reason");
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
