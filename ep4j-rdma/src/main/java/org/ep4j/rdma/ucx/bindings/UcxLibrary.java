package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** libucp, loaded on first use of this class and never unloaded. */
@SuppressWarnings("restricted") // loading native libraries is what this class is for
public final class UcxLibrary {
  /** Path of the library, if the system loader does not find it. */
  static final String VARIABLE = "EP4J_UCX_LIBRARY";

  /** The oldest supported version: its puts accept handles of registered memory. */
  public static final int MAJOR = 1;

  public static final int MINOR = 13;

  private static final List<String> NAMES = List.of("libucp.so.0", "libucp.so");
  private static final @Nullable SymbolLookup SYMBOLS;

  /** Name of the loaded library. */
  private static final String NAME;

  private static final int[] VERSION = new int[3];

  /** Why the library cannot be used; empty if it can. */
  private static final String PROBLEM;

  static {
    UcxEnvironment.prepare();
    String given = System.getenv(VARIABLE);
    boolean named = given != null && !given.isBlank();
    List<String> candidates = named ? List.of(String.valueOf(given)) : NAMES;
    SymbolLookup symbols = null;
    String name = candidates.getFirst();
    for (String candidate : candidates) {
      symbols = open(candidate);
      if (symbols != null) {
        name = candidate;
        break;
      }
    }
    SYMBOLS = symbols;
    NAME = name;
    PROBLEM = symbols == null ? missing(named) : judge(symbols);
  }

  private UcxLibrary() {}

  private static @Nullable SymbolLookup open(String nameOrPath) {
    try {
      return nameOrPath.indexOf('/') >= 0
          ? SymbolLookup.libraryLookup(Path.of(nameOrPath), Arena.global())
          : SymbolLookup.libraryLookup(nameOrPath, Arena.global());
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  private static String missing(boolean named) {
    return named
        ? VARIABLE + " = " + NAME + " cannot be loaded: correct it, or leave it out"
        : "there is no "
            + NAME
            + ": install UCX (package libucx0 of Debian and Ubuntu, ucx of Fedora and RHEL), or"
            + " name its libucp.so.0 in "
            + VARIABLE;
  }

  private static String judge(SymbolLookup symbols) {
    for (UcpFunction function : UcpFunction.values()) {
      if (symbols.find(function.symbol()).isEmpty()) {
        return NAME + " has no " + function.symbol() + ": " + newer();
      }
    }
    MethodHandle version =
        Linker.nativeLinker()
            .downcallHandle(
                symbols.findOrThrow(UcpFunction.GET_VERSION.symbol()),
                FunctionDescriptor.ofVoid(
                    ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT, 3);
      version.invokeExact(out.address(), out.address() + 4, out.address() + 8);
      MemorySegment.copy(out, ValueLayout.JAVA_INT, 0, VERSION, 0, 3);
    } catch (Throwable t) {
      throw new IllegalStateException("ucp_get_version cannot be called", t);
    }
    boolean old = VERSION[0] < MAJOR || (VERSION[0] == MAJOR && VERSION[1] < MINOR);
    return old ? NAME + " has version " + version() + ": " + newer() : "";
  }

  private static String newer() {
    return "install UCX %d.%d or newer, or name its libucp.so.0 in %s"
        .formatted(MAJOR, MINOR, VARIABLE);
  }

  /** Why the library cannot be used, with the remedy; empty if it can. */
  public static String problem() {
    return PROBLEM;
  }

  /** Version of the library: major, minor and release. */
  static String version() {
    return VERSION[0] + "." + VERSION[1] + "." + VERSION[2];
  }

  /** Address of a function. */
  static MemorySegment address(UcpFunction function) {
    if (SYMBOLS == null) {
      throw new IllegalStateException(PROBLEM);
    }
    return SYMBOLS.findOrThrow(function.symbol());
  }
}
