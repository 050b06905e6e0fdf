package org.ep4j.memory;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.file.Path;
import org.ep4j.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Binding of C library calls for anonymous memory: zeroed pages that take memory when first
 * touched.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class Libc {
  private static final int PROT_READ_WRITE = 1 | 2;
  private static final int PROT_READ_EXECUTE = 1 | 4;
  private static final int MAP_SHARED = 0x01;
  private static final int MAP_PRIVATE = 0x02;
  private static final int MAP_FIXED = 0x10;
  private static final int MAP_ANONYMOUS = 0x20;
  private static final int MAP_NORESERVE = 0x4000;
  private static final long MAP_FAILED = -1L;
  private static final int MADV_HUGEPAGE = 14;
  private static final int FALLOC_FL_KEEP_SIZE = 1;
  private static final int O_RDWR = 2;
  private static final int O_CLOEXEC = 0x80000;
  private static final int EINTR = 4;
  private static final int ENOSYS = 38;

  /** ENOSPC: the file system is full. */
  static final int NO_SPACE = 28;

  /** EOPNOTSUPP: the file system does not support the call. */
  static final int NOT_SUPPORTED = 95;

  private static final Linker LINKER = Linker.nativeLinker();
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
  private static final MethodHandle MUNMAP =
      handle(
          "munmap",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  private static final MethodHandle MPROTECT =
      handle(
          "mprotect",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT));

  private static final MethodHandle MADVISE =
      handle(
          "madvise",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT));

  private static final MethodHandle OPEN =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("open"),
          FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT),
          Linker.Option.firstVariadicArg(2));
  private static final MethodHandle CLOSE =
      handle("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));

  private static final StructLayout CALL_STATE = Linker.Option.captureStateLayout();
  private static final VarHandle ERRNO =
      CALL_STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

  /** Null on systems other than Linux. */
  private static final @Nullable MethodHandle FALLOCATE =
      LINKER
          .defaultLookup()
          .find("fallocate")
          .map(
              symbol ->
                  LINKER.downcallHandle(
                      symbol,
                      FunctionDescriptor.of(
                          ValueLayout.JAVA_INT,
                          ValueLayout.JAVA_INT,
                          ValueLayout.JAVA_INT,
                          ValueLayout.JAVA_LONG,
                          ValueLayout.JAVA_LONG),
                      Linker.Option.captureCallState("errno")))
          .orElse(null);

  private Libc() {}

  /**
   * Makes the file system provide memory for a part of a file, as a whole or not at all; bytes that
   * exist do not change.
   *
   * @return 0, {@link #NOT_SUPPORTED}, {@link #NO_SPACE}, or another number of an error
   */
  static int provide(int descriptor, long offset, long bytes) {
    MethodHandle fallocate = FALLOCATE;
    if (fallocate == null) {
      return NOT_SUPPORTED;
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(CALL_STATE);
      int error = EINTR;
      while (error == EINTR) {
        int rc = (int) fallocate.invokeExact(state, descriptor, FALLOC_FL_KEEP_SIZE, offset, bytes);
        error = rc == 0 ? 0 : (int) ERRNO.get(state, 0L);
      }
      return error == ENOSYS ? NOT_SUPPORTED : error;
    } catch (Throwable t) {
      throw new AssertionError("fallocate cannot throw", t);
    }
  }

  /** Reserves {@code bytes} bytes of zeroed memory and returns the address. */
  static long mapAnonymous(long bytes) {
    long address;
    try {
      address =
          (long)
              MMAP.invokeExact(
                  0L, bytes, PROT_READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    } catch (Throwable t) {
      throw new AssertionError("mmap cannot throw", t);
    }
    if (address == MAP_FAILED) {
      throw new OutOfMemoryError(
          ErrorCode.SHARED_MEMORY.message(
              "mmap of "
                  + bytes
                  + " bytes failed: lower maxTokens or maxReceiveRows, or raise ulimit -v"));
    }
    return address;
  }

  /**
   * Maps the begin of a file over whole pages of this process and replaces their content; false if
   * the system refuses.
   */
  static boolean mapOver(long address, long bytes, Path file) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocateFrom(file.toString());
      int descriptor = (int) OPEN.invokeExact(name, O_RDWR | O_CLOEXEC);
      if (descriptor < 0) {
        return false;
      }
      long mapped =
          (long)
              MMAP.invokeExact(
                  address, bytes, PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0L);
      int ignored = (int) CLOSE.invokeExact(descriptor);
      return mapped == address;
    } catch (Throwable t) {
      throw new AssertionError("open and mmap cannot throw", t);
    }
  }

  /** Unmaps the memory. */
  static void unmap(long address, long bytes) {
    int rc;
    try {
      rc = (int) MUNMAP.invokeExact(address, bytes);
    } catch (Throwable t) {
      throw new AssertionError("munmap cannot throw", t);
    }
    if (rc != 0) {
      throw new IllegalStateException("munmap of " + bytes + " bytes failed");
    }
  }

  /**
   * Requests huge pages; the system may ignore the request. Fewer pages need fewer address
   * translations: copies of large arrays are about 10 % faster.
   */
  static void preferHugePages(long address, long bytes) {
    try {
      int ignored = (int) MADVISE.invokeExact(address, bytes, MADV_HUGEPAGE);
    } catch (Throwable t) {
      throw new AssertionError("madvise cannot throw", t);
    }
  }

  /** Makes memory executable and read-only; false if the system does not allow it. */
  static boolean makeExecutable(long address, long bytes) {
    try {
      return (int) MPROTECT.invokeExact(address, bytes, PROT_READ_EXECUTE) == 0;
    } catch (Throwable t) {
      throw new AssertionError("mprotect cannot throw", t);
    }
  }

  private static MethodHandle handle(String name, FunctionDescriptor descriptor) {
    MemorySegment symbol = LINKER.defaultLookup().findOrThrow(name);
    return LINKER.downcallHandle(symbol, descriptor);
  }
}
