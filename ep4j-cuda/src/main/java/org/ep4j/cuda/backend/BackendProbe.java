package org.ep4j.cuda.backend;

import java.util.List;

/**
 * Result of the probe of a backend on this machine.
 *
 * @param version version of its library; empty if it has none
 * @param library name or path of the library; empty if it has none or none was found
 * @param problem empty if usable; otherwise what was searched, where, and the remedy
 * @param advice limitations on this machine, with the remedy
 */
public record BackendProbe(String version, String library, String problem, List<String> advice) {
  /** Copies the advice. */
  public BackendProbe {
    advice = List.copyOf(advice);
  }

  /** A usable backend. */
  public static BackendProbe found(String version, String library, List<String> advice) {
    return new BackendProbe(version, library, "", advice);
  }

  /** An unusable backend. */
  public static BackendProbe failed(String problem) {
    return new BackendProbe("", "", problem, List.of());
  }

  /** Whether the backend is usable. */
  public boolean usable() {
    return problem.isEmpty();
  }
}
