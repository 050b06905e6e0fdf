package org.ep4j.cuda.driver.calls;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The exit of this process. Native libraries destroy their state at exit; a thread that is still
 * inside such a library then crashes, and the process with it.
 */
@SuppressWarnings("restricted") // links native functions
public final class NativeExit {
  /**
   * System property that allows to skip exit handlers. They are those of the whole process, so the
   * program decides, not a library in it: ep4j's own command line sets the property.
   */
  public static final String PROPERTY = "ep4j.skipExitHandlers";

  private static final AtomicBoolean SKIPS = new AtomicBoolean();

  private NativeExit() {}

  /**
   * Permanently disables the exit handlers of native libraries if the program allows it by {@link
   * #PROPERTY}. Java's shutdown hooks still run, and the exit status does not change. For threads
   * that must be abandoned inside a library. Does nothing if the C library has no {@code on_exit}.
   *
   * @return whether the program allows it
   */
  public static boolean skipDestructors() {
    boolean allowed = Boolean.getBoolean(PROPERTY);
    if (allowed && SKIPS.compareAndSet(false, true)) {
      endAtOnce();
    }
    return allowed;
  }

  /**
   * The C library calls exit handlers with the status of the process, last registered first. The C
   * library's own function that ends a process immediately with a status, registered last,
   * therefore precedes the handlers that libraries registered when they were loaded.
   */
  private static void endAtOnce() {
    SymbolLookup library = Linker.nativeLinker().defaultLookup();
    Optional<MemorySegment> add = library.find("on_exit");
    Optional<MemorySegment> end = library.find("_exit");
    if (add.isEmpty() || end.isEmpty()) {
      return;
    }
    FunctionDescriptor signature =
        FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
    MethodHandle call = Linker.nativeLinker().downcallHandle(add.get(), signature);
    try {
      int ignored = (int) call.invokeExact(end.get().address(), 0L);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }
}
