package org.ep4j.cuda.driver;

import org.ep4j.EngineUnavailableException;

/**
 * How the search for a native library went.
 *
 * @param library the name or path under which it was found, or empty
 * @param problem empty if it can be used; otherwise what was looked for, where, and what to install
 */
public record LibrarySearch(String library, String problem) {
  static LibrarySearch found(String library) {
    return new LibrarySearch(library, "");
  }

  static LibrarySearch failed(String problem) {
    return new LibrarySearch("", problem);
  }

  /** Whether the library can be used. */
  public boolean found() {
    return problem.isEmpty();
  }

  /**
   * Does nothing if the library can be used.
   *
   * @throws EngineUnavailableException with the problem otherwise
   */
  public void require() {
    if (!found()) {
      throw new EngineUnavailableException(problem);
    }
  }
}
