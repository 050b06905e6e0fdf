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
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * Binding of C library calls for memory: zeroed pages that take memory when first touched, ranges
 * of addresses, and files mapped into them. Calls that can fail return the number of the error,
 * whose name {@link #errorText} gives.
 */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class Libc {
  private static final int PROT_NONE = 0;
  private static final int PROT_READ_WRITE = 1 | 2;
  private static final int PROT_READ_EXECUTE = 1 | 4;
  private static final int MAP_SHARED = 0x01;
  private static final int MAP_PRIVATE = 0x02;
  private static final int MAP_FIXED = 0x10;
  private static final int MAP_ANONYMOUS = 0x20;
  private static final int MAP_NORESERVE = 0x4000;
  private static final int MAP_FIXED_NOREPLACE = 0x100000;
  private static final long MAP_FAILED = -1L;
  private static final int MADV_HUGEPAGE = 14;
  private static final int FALLOC_FL_KEEP_SIZE = 1;
  private static final int O_RDWR = 2;
  private static final int O_CLOEXEC = 0x80000;
  private static final int O_NOFOLLOW = noFollow(System.getProperty("os.arch", ""));
  private static final int EINTR = 4;
  private static final int ENOSYS = 38;

  /** ENOSPC: the file system is full. */
  static final int NO_SPACE = 28;

  /** EOPNOTSUPP: the file system does not support the call. */
  static final int NOT_SUPPORTED = 95;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final Linker.Option WITH_ERRNO = Linker.Option.captureCallState("errno");
  private static final StructLayout CALL_STATE = Linker.Option.captureStateLayout();
  private static final VarHandle ERRNO =
      CALL_STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

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
              ValueLayout.JAVA_LONG),
          WITH_ERRNO);
  private static final MethodHandle MUNMAP =
      handle(
          "munmap",
          FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
          WITH_ERRNO);

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
          Linker.Option.firstVariadicArg(2),
          WITH_ERRNO);
  private static final MethodHandle GETEUID =
      handle("geteuid", FunctionDescriptor.of(ValueLayout.JAVA_INT));
  private static final MethodHandle CLOSE =
      handle("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));

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
                      WITH_ERRNO))
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

  /**
   * Reserves {@code bytes} bytes of zeroed memory and returns the address.
   *
   * @throws OutOfMemoryError if the system refuses
   */
  static long mapAnonymous(long bytes) {
    long address = map(0, bytes, PROT_READ_WRITE, 0, -1);
    if (address < 0) {
      throw new OutOfMemoryError(
          ErrorCode.SHARED_MEMORY.message(
              "mmap of %d bytes failed with %s: lower maxTokens or maxReceiveRows, or raise ulimit -v"
                  .formatted(bytes, errorText((int) -address))));
    }
    return address;
  }

  /**
   * Reserves addresses without memory; any access faults until something is mapped there.
   *
   * @return the first address, or the negative error
   */
  static long reserve(long bytes) {
    return map(0, bytes, PROT_NONE, 0, -1);
  }

  /**
   * Maps the begin of a file at addresses of this process, in place of what is there.
   *
   * @return 0, or the error; then the old mapping is still there, or nothing is
   */
  static int mapFileAt(long address, long bytes, int descriptor) {
    return errorOf(map(address, bytes, PROT_READ_WRITE, MAP_FIXED, descriptor));
  }

  /**
   * Maps zeroed memory at addresses of this process, in place of what is there.
   *
   * @return 0, or the error; then the old mapping is still there, or nothing is
   */
  static int mapZeroesAt(long address, long bytes) {
    return errorOf(map(address, bytes, PROT_READ_WRITE, MAP_FIXED, -1));
  }

  /** Maps zeroed memory at addresses where nothing is mapped; false if anything is. */
  static boolean fillHole(long address, long bytes) {
    long mapped = map(address, bytes, PROT_READ_WRITE, MAP_FIXED_NOREPLACE, -1);
    if (mapped > 0 && mapped != address) {
      unmap(mapped, bytes); // a kernel before 4.17 takes the address for a wish
    }
    return mapped == address;
  }

  /** Maps a file, or anonymous memory for descriptor -1; the address, or the negative error. */
  private static long map(long address, long bytes, int protection, int placement, int descriptor) {
    int kind = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(CALL_STATE);
      long mapped =
          (long)
              MMAP.invokeExact(state, address, bytes, protection, kind | placement, descriptor, 0L);
      return mapped == MAP_FAILED ? -(long) (int) ERRNO.get(state, 0L) : mapped;
    } catch (Throwable t) {
      throw new AssertionError("mmap cannot throw", t);
    }
  }

  private static int errorOf(long mapped) {
    return mapped < 0 ? (int) -mapped : 0;
  }

  /** Numbers of flags differ between architectures. */
  private static int noFollow(String architecture) {
    return switch (architecture) {
      case "aarch64", "arm", "ppc64", "ppc64le" -> 0x8000;
      default -> 0x20000;
    };
  }

  /**
   * Opens a file to read and write.
   *
   * @param follow whether the last part of the name may be a symbolic link
   * @return the descriptor, or the negative error
   */
  static int open(Path file, boolean follow) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(CALL_STATE);
      MemorySegment name = arena.allocateFrom(file.toString());
      int descriptor =
          (int) OPEN.invokeExact(state, name, O_RDWR | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
      return descriptor < 0 ? -(int) ERRNO.get(state, 0L) : descriptor;
    } catch (Throwable t) {
      throw new AssertionError("open cannot throw", t);
    }
  }

  /** The user whose rights this process has. */
  static int effectiveUser() {
    try {
      return (int) GETEUID.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError("geteuid cannot throw", t);
    }
  }

  /** Closes a descriptor. */
  static void close(int descriptor) {
    try {
      int ignored = (int) CLOSE.invokeExact(descriptor);
    } catch (Throwable t) {
      throw new AssertionError("close cannot throw", t);
    }
  }

  /** Name and meaning of the errors that these calls usually have; the number of others. */
  static String errorText(int error) {
    return switch (error) {
      case 1 -> "EPERM (the system forbids it)";
      case 2 -> "ENOENT (no such file)";
      case 9 -> "EBADF (not an open file)";
      case 11 -> "EAGAIN (too much locked memory)";
      case 12 -> "ENOMEM (no memory, or too many mappings: vm.max_map_count)";
      case 13 -> "EACCES (no permission)";
      case 19 -> "ENODEV (its file system cannot be mapped)";
      case 21 -> "EISDIR (a directory)";
      case 22 -> "EINVAL (a bad value)";
      case 23 -> "ENFILE (too many open files on this host)";
      case 24 -> "EMFILE (too many open files: ulimit -n)";
      case NO_SPACE -> "ENOSPC (no space left)";
      case 40 -> "ELOOP (a symbolic link)";
      default -> "error " + error;
    };
  }

  /**
   * Unmaps the memory.
   *
   * @throws IllegalStateException if the system refuses; names its error
   */
  static void unmap(long address, long bytes) {
    int error;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(CALL_STATE);
      int rc = (int) MUNMAP.invokeExact(state, address, bytes);
      error = rc == 0 ? 0 : (int) ERRNO.get(state, 0L);
    } catch (Throwable t) {
      throw new AssertionError("munmap cannot throw", t);
    }
    if (error != 0) {
      throw new IllegalStateException(
          "munmap of " + bytes + " bytes failed with " + errorText(error));
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

  private static MethodHandle handle(
      String name, FunctionDescriptor descriptor, Linker.Option... options) {
    MemorySegment symbol = LINKER.defaultLookup().findOrThrow(name);
    return LINKER.downcallHandle(symbol, descriptor, options);
  }
}
