package org.ep4j.engine;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Environment variables whose names have changed. This version reads the old name too and logs one
 * warning a process; the next version does not.
 */
public final class RenamedVariables {
  /**
   * The old name of each renamed variable by its new name. No other place lists renamed variables.
   */
  private static final Map<String, String> OLD_NAMES =
      Map.of(
          "EP4J_CUDA_LL_PACKETS", "EP4J_CUDA_LINES",
          "EP4J_CUDA_PREBUILT", "EP4J_CUDA_SHIPPED",
          "EP4J_CUDA_SPECIALIZE", "EP4J_CUDA_SPECIAL");

  private static final System.Logger LOG = System.getLogger("org.ep4j");
  private static final Set<String> REPORTED = ConcurrentHashMap.newKeySet();

  private RenamedVariables() {}

  /** The old names: this version reads them, so they are not misspelled. */
  public static Set<String> oldNames() {
    return Set.copyOf(OLD_NAMES.values());
  }

  /** The new name of a variable; null if {@code oldName} is not the old name of one. */
  public static @Nullable String newName(String oldName) {
    for (Map.Entry<String, String> renamed : OLD_NAMES.entrySet()) {
      if (renamed.getValue().equals(oldName)) {
        return renamed.getKey();
      }
    }
    return null;
  }

  /** The value of a variable by its new name, else by its old name; null if neither is set. */
  public static @Nullable String value(Map<String, String> environment, String name) {
    String value = environment.get(name);
    String oldName = OLD_NAMES.get(name);
    if (value != null || oldName == null) {
      return value;
    }
    String old = environment.get(oldName);
    if (old != null && REPORTED.add(oldName)) {
      LOG.log(
          System.Logger.Level.WARNING,
          "ep4j: the variable " + oldName + " is now " + name + ": set " + name + " instead");
    }
    return old;
  }
}
