package org.ep4j.nccl;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * Binding of the Linux calls that read and set on which cores a thread may run. A result below zero
 * is a failure.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class CoreCalls {
  private static final int CALLING_THREAD = 0;
  private static final Linker LINKER = Linker.nativeLinker();
  private static final FunctionDescriptor CALL =
      FunctionDescriptor.of(
          ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
  private static final MethodHandle GET = link("sched_getaffinity");
  private static final MethodHandle SET = link("sched_setaffinity");

  private CoreCalls() {}

  /** Writes the mask of the calling thread. */
  static int get(MemorySegment mask) {
    try {
      return (int) GET.invokeExact(CALLING_THREAD, mask.byteSize(), mask);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  /** Sets the mask of the calling thread. */
  static int set(MemorySegment mask) {
    try {
      return (int) SET.invokeExact(CALLING_THREAD, mask.byteSize(), mask);
    } catch (Throwable t) {
      throw NcclException.unexpected(t);
    }
  }

  private static MethodHandle link(String symbol) {
    return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(symbol), CALL);
  }
}
