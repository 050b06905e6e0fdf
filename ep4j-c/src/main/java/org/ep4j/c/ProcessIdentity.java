package org.ep4j.c;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;

/**
 * Binding of {@code getpid}: tells the process of this JVM from its forked children, which have the
 * memory of the JVM but none of its threads.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class ProcessIdentity {
  /** Critical: the call waits for nothing, so the thread need not leave Java's state for it. */
  private static final MethodHandle GETPID =
      Linker.nativeLinker()
          .downcallHandle(
              Linker.nativeLinker().defaultLookup().findOrThrow("getpid"),
              FunctionDescriptor.of(ValueLayout.JAVA_INT),
              Linker.Option.critical(false));

  private static final int OWNER = current();

  private ProcessIdentity() {}

  /**
   * Requires the process that started the JVM.
   *
   * @throws IllegalUseException in a forked child
   */
  static void check() {
    if (current() != OWNER) {
      throw new IllegalUseException(
          ErrorCode.FORKED_PROCESS,
          "this process was forked from "
              + OWNER
              + ", whose JVM it cannot use: start ep4j after the fork, or execute a new program");
    }
  }

  private static int current() {
    try {
      return (int) GETPID.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError("getpid cannot throw", t);
    }
  }
}
