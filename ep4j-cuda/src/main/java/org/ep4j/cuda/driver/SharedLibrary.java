package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** Opens native libraries, which then stay open for the life of the process. */
@SuppressWarnings("restricted") // loading native libraries is what this class is for
public final class SharedLibrary {
  private SharedLibrary() {}

  /**
   * Opens a library.
   *
   * @param nameOrPath a path if it has a slash, otherwise a name for the system's loader
   * @return null if there is none that can be loaded
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
