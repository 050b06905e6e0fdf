package org.ep4j.cuda.driver;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The end of this process. Native libraries take down what they work with then; where a thread is
 * still in one, it dies of that, and the process with it.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
public final class NativeExit {
  private static final AtomicBoolean SKIPS = new AtomicBoolean();

  private NativeExit() {}

  /**
   * Leaves out what native libraries would do when this process ends, from now on and for good.
   * Java's shutdown hooks run as ever, and the status is what it would be. For when a thread has to
   * be left behind in a library. Does nothing where the C library has no {@code on_exit}.
   */
  public static void skipDestructors() {
    if (SKIPS.compareAndSet(false, true)) {
      endAtOnce();
    }
  }

  /**
   * The C library calls what is to run at the end with the status of the process, last added first.
   * So its own function that ends a process at once with a status goes before all that libraries
   * added when they were loaded.
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
