package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Settings that UCX reads when its library is loaded, and whose defaults do not fit a JVM. Values
 * of the user take precedence. They are set in the environment of the process, the only interface;
 * the environment map of Java and child processes do not contain them.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class UcxEnvironment {
  private static final MethodHandle SETENV =
      Linker.nativeLinker()
          .downcallHandle(
              Linker.nativeLinker().defaultLookup().findOrThrow("setenv"),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_INT));

  /** Names of transports that include POSIX shared memory. */
  private static final Set<String> POSIX = Set.of("posix", "shm", "sm", "mm", "all");

  private UcxEnvironment() {}

  /** Called once, before the library is loaded. */
  static void prepare() {
    // A JVM raises SIGSEGV in normal operation, and handles it.
    setDefault("UCX_ERROR_SIGNALS", "");
    setDefault("UCX_HANDLE_ERRORS", "none");
    // To detect unmapped memory, UCX would patch munmap and others while threads of the JVM run
    // them. ep4j registers and deregisters all memory explicitly.
    setDefault("UCX_MEM_EVENTS", "n");
    // Regions use POSIX segments: only these can report the death of a peer, see prepareFor.
    setDefault("UCX_ALLOC_PRIO", "md:posix,huge,thp,md:*,mmap,heap");
    // Standard output belongs to the application.
    setDefault("UCX_LOG_FILE", "stderr");
  }

  /**
   * Called before a context is opened.
   *
   * @param transports allowed transports, as in {@code UCX_TLS}; null for all
   */
  public static void prepareFor(@Nullable String transports) {
    boolean shared = transports == null;
    if (transports != null) {
      boolean named = Arrays.stream(transports.split("[\\^,]")).anyMatch(POSIX::contains);
      shared = transports.startsWith("^") != named;
    }
    if (shared) {
      // Lanes detect the death of a peer over shared memory, too. Without such a transport, UCX
      // warns of an unused variable.
      setDefault("UCX_POSIX_ERROR_HANDLING", "y");
    }
  }

  private static void setDefault(String name, String value) {
    try (Arena arena = Arena.ofConfined()) {
      int ignored =
          (int)
              SETENV.invokeExact(
                  arena.allocateFrom(name).address(), arena.allocateFrom(value).address(), 0);
    } catch (Throwable t) {
      throw new IllegalStateException("setenv cannot be called", t);
    }
  }
}
