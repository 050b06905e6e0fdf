package org.ep4j.cuda.driver.calls;

import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;

/**
 * Result of the search for a native library.
 *
 * @param library name or path of the library; empty if not found
 * @param problem empty if the library is usable; otherwise what was searched, where, and what to
 *     install
 */
public record LibrarySearch(String library, String problem) {
  public static LibrarySearch found(String library) {
    return new LibrarySearch(library, "");
  }

  public static LibrarySearch failed(String problem) {
    return new LibrarySearch("", problem);
  }

  /** Whether the library is usable. */
  public boolean found() {
    return problem.isEmpty();
  }

  /**
   * Does nothing if the library is usable.
   *
   * @throws EngineUnavailableException with the problem otherwise
   */
  public void require() {
    if (!found()) {
      throw new EngineUnavailableException(ErrorCode.NATIVE_LIBRARY_MISSING, problem);
    }
  }
}
