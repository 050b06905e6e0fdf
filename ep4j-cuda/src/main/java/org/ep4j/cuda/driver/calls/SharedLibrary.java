package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Opens native libraries, which stay open until the process ends. */
@SuppressWarnings("restricted") // loads native libraries
public final class SharedLibrary {
  private SharedLibrary() {}

  /** The first library that can be opened, which stays open; empty if there is none. */
  public static String first(List<String> candidates) {
    for (String candidate : candidates) {
      if (open(candidate) != null) {
        return candidate;
      }
    }
    return "";
  }

  /**
   * Opens a library.
   *
   * @param nameOrPath a path if it contains a slash, otherwise a name for the system loader
   * @return null if the library cannot be loaded
   */
  public static @Nullable SymbolLookup open(String nameOrPath) {
    try {
      return nameOrPath.indexOf('/') >= 0
          ? SymbolLookup.libraryLookup(Path.of(nameOrPath), Arena.global())
          : SymbolLookup.libraryLookup(nameOrPath, Arena.global());
    } catch (IllegalArgumentException e) {
      return null;
    }
  }
}
