package org.ep4j.cuda.backend;

import java.util.List;

/**
 * What a backend found on this machine.
 *
 * @param version of its library; empty if it has none
 * @param library the name or path under which it was found; empty if it has or found none
 * @param problem empty if it can be used; otherwise what was looked for, where, and what helps
 * @param advice what will be slow or differ here, with the remedy
 */
public record BackendProbe(String version, String library, String problem, List<String> advice) {
  /** Copies the advice. */
  public BackendProbe {
    advice = List.copyOf(advice);
  }

  /** It can be used. */
  public static BackendProbe found(String version, String library, List<String> advice) {
    return new BackendProbe(version, library, "", advice);
  }

  /** It cannot. */
  public static BackendProbe failed(String problem) {
    return new BackendProbe("", "", problem, List.of());
  }

  /** Whether it can be used. */
  public boolean usable() {
    return problem.isEmpty();
  }
}
