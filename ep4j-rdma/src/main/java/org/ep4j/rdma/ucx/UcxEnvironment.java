package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Settings that UCX reads when its library is loaded, and that a JVM needs to be other than what a
 * C program needs. What the user has set stays. Set in the environment of the process, because
 * there is no other way in; Java's own view of the environment and child processes do not see it.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class UcxEnvironment {
  private static final MethodHandle SETENV =
      Linker.nativeLinker()
          .downcallHandle(
              Linker.nativeLinker().defaultLookup().findOrThrow("setenv"),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_INT));

  /** What stands for POSIX shared memory among names of transports. */
  private static final Set<String> POSIX = Set.of("posix", "shm", "sm", "mm", "all");

  private UcxEnvironment() {}

  /** Called once, before the library is loaded. */
  static void prepare() {
    // A JVM gets SIGSEGV in its normal course, and handles it itself.
    setDefault("UCX_ERROR_SIGNALS", "");
    setDefault("UCX_HANDLE_ERRORS", "none");
    // UCX would rewrite the code of munmap and others while threads of the JVM run it, to notice
    // when memory goes that it has registered. All memory here is registered by its owner.
    setDefault("UCX_MEM_EVENTS", "n");
    // Only POSIX segments can tell of a peer's death, see prepareFor: regions are made of them.
    setDefault("UCX_ALLOC_PRIO", "md:posix,huge,thp,md:*,mmap,heap");
    // Standard output belongs to the application.
    setDefault("UCX_LOG_FILE", "stderr");
  }

  /**
   * Called before a context is opened.
   *
   * @param transports that it may use, as in {@code UCX_TLS}; null for all
   */
  static void prepareFor(@Nullable String transports) {
    boolean shared = transports == null;
    if (transports != null) {
      boolean named = Arrays.stream(transports.split("[\\^,]")).anyMatch(POSIX::contains);
      shared = transports.startsWith("^") != named;
    }
    if (shared) {
      // Lanes learn of a peer's death through shared memory too. Where nobody would read it, UCX
      // warns of a variable that is not used.
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
