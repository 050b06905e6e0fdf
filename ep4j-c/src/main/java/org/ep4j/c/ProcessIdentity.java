package org.ep4j.c;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.PrivateMemory;

/**
 * Binding of the calls that tell the process of this JVM from its forked children, which have the
 * memory of the JVM but none of its threads. {@code ep4j.h} keeps children out of the JVM; this is
 * for programs that took the table without its code. The kernel clears a page in children, so the
 * test of each call is one load; a system call of each would take as long as the rest of it.
 * Kernels that clear no pages (before Linux 4.14) are asked for the process id.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class ProcessIdentity {
  private static final int MADV_WIPEONFORK = 18;
  private static final long PAGE_BYTES = 4096;

  private static final MethodHandle GETPID =
      handle("getpid", FunctionDescriptor.of(ValueLayout.JAVA_INT));
  private static final MethodHandle MADVISE =
      handle(
          "madvise",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT));

  private static final int OWNER = current();

  /** A word that is 1 in this process and 0 in its children; 0 where the kernel clears no pages. */
  private static final long MARK = mark();

  private ProcessIdentity() {}

  /** Whether this process started the JVM; false in a forked child. Allocates nothing. */
  static boolean isOwner() {
    return MARK == 0 ? current() == OWNER : NativeMemory.getLong(MARK) != 0;
  }

  private static long mark() {
    // Never unmapped: the mark lives as long as the JVM.
    long page = PrivateMemory.reserve(PAGE_BYTES).address();
    try {
      if ((int) MADVISE.invokeExact(page, PAGE_BYTES, MADV_WIPEONFORK) != 0) {
        return 0;
      }
    } catch (Throwable t) {
      throw new AssertionError("madvise cannot throw", t);
    }
    NativeMemory.putLong(page, 1);
    return page;
  }

  private static int current() {
    try {
      return (int) GETPID.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError("getpid cannot throw", t);
    }
  }

  private static MethodHandle handle(String name, FunctionDescriptor descriptor) {
    Linker linker = Linker.nativeLinker();
    return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), descriptor);
  }
}
