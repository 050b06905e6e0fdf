package org.ep4j.rdma.verbs.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.util.List;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.jspecify.annotations.Nullable;

/**
 * The library libibverbs, loaded on first use of this class. {@link Verbs} must not be used unless
 * {@link #problem} is empty.
 */
@SuppressWarnings("restricted") // opening a native library is what this class is for
public final class VerbsLibrary {
  private static final String DEFAULT = "libibverbs.so.1";

  private static final String NAME =
      System.getenv().getOrDefault(RdmaSettings.LIBRARY, "").isBlank()
          ? DEFAULT
          : System.getenv(RdmaSettings.LIBRARY).strip();

  /** What {@link Verbs} cannot do without. */
  private static final List<String> REQUIRED =
      List.of(
          "ibv_get_device_list",
          "ibv_free_device_list",
          "ibv_get_device_name",
          "ibv_open_device",
          "ibv_close_device",
          "ibv_query_device",
          "ibv_query_port",
          "ibv_query_gid",
          "ibv_alloc_pd",
          "ibv_dealloc_pd",
          "ibv_reg_mr",
          "ibv_dereg_mr",
          "ibv_create_cq",
          "ibv_destroy_cq",
          "ibv_create_qp",
          "ibv_modify_qp",
          "ibv_destroy_qp",
          "ibv_wc_status_str");

  private static final @Nullable SymbolLookup SYMBOLS = open();

  private VerbsLibrary() {}

  private static @Nullable SymbolLookup open() {
    try {
      return SymbolLookup.libraryLookup(NAME, Arena.global());
    } catch (IllegalArgumentException e) {
      return null; // problem() reports this
    }
  }

  /** Why the library cannot be used, with the remedy; empty if it can. */
  public static String problem() {
    SymbolLookup symbols = SYMBOLS;
    if (symbols != null) {
      return REQUIRED.stream()
          .filter(function -> symbols.find(function).isEmpty())
          .findFirst()
          .map(
              function ->
                  NAME
                      + " has no "
                      + function
                      + ": name a libibverbs.so.1 in "
                      + RdmaSettings.LIBRARY)
          .orElse("");
    }
    return NAME.equals(DEFAULT)
        ? "there is no "
            + NAME
            + ": install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (Red Hat)"
        : RdmaSettings.LIBRARY + " is " + NAME + ", which cannot be loaded: name a libibverbs.so.1";
  }

  /** Whether the library has a function that older versions lack. */
  static boolean has(String function) {
    return SYMBOLS != null && SYMBOLS.find(function).isPresent();
  }

  /** Address of a function. */
  static MemorySegment address(String function) {
    SymbolLookup symbols = SYMBOLS;
    if (symbols == null) {
      throw new IllegalStateException(problem());
    }
    return symbols.findOrThrow(function);
  }
}
