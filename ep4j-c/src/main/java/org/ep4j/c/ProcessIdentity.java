package org.ep4j.c;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.memory.NativeMemory;

/**
 * Binding of the calls that tell the process of this JVM from its forked children, which have the
 * memory of the JVM but none of its threads. The kernel clears a page in children, so the test of
 * each call is one load; a system call of each would take as long as the rest of it. Kernels that
 * clear no pages (before Linux 4.14) are asked for the process id.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class ProcessIdentity {
  private static final int PROT_READ_WRITE = 1 | 2;
  private static final int MAP_PRIVATE_ANONYMOUS = 0x02 | 0x20;
  private static final int MADV_WIPEONFORK = 18;
  private static final long PAGE_BYTES = 4096;
  private static final long MAP_FAILED = -1;

  private static final MethodHandle GETPID =
      handle("getpid", FunctionDescriptor.of(ValueLayout.JAVA_INT));
  private static final MethodHandle MMAP =
      handle(
          "mmap",
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG));
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

  /**
   * Requires the process that started the JVM.
   *
   * @throws IllegalUseException in a forked child
   */
  static void check() {
    if (MARK == 0 ? current() != OWNER : NativeMemory.getLong(MARK) == 0) {
      throw new IllegalUseException(
          ErrorCode.FORKED_PROCESS,
          "this process was forked from "
              + OWNER
              + ", whose JVM it cannot use: start ep4j after the fork, or execute a new program");
    }
  }

  private static long mark() {
    try {
      long page =
          (long) MMAP.invokeExact(0L, PAGE_BYTES, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0L);
      if (page == MAP_FAILED || (int) MADVISE.invokeExact(page, PAGE_BYTES, MADV_WIPEONFORK) != 0) {
        return 0;
      }
      NativeMemory.putLong(page, 1);
      return page;
    } catch (Throwable t) {
      throw new AssertionError("mmap and madvise cannot throw", t);
    }
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
