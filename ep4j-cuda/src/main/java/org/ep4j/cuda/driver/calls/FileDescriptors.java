package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * Binding of the Linux calls that carry a file descriptor, for example of {@link
 * VmmMemory#exportDescriptor}, to another process: the receiver copies it by process id and number.
 * This needs permission to trace the other process: root, or the same user without a Yama
 * restriction above 0.
 */
@SuppressWarnings("restricted") // links native functions
public final class FileDescriptors {
  // Same numbers on x86-64 and AArch64.
  private static final long SYS_PIDFD_OPEN = 434;
  private static final long SYS_PIDFD_GETFD = 438;
  private static final int EPERM = 1;

  private static final Linker LINKER = Linker.nativeLinker();
  private static final StructLayout STATE = Linker.Option.captureStateLayout();
  private static final long ERRNO = DriverLayouts.offset(STATE, "errno");

  private static final MethodHandle SYSCALL =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("syscall"),
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG),
          Linker.Option.firstVariadicArg(1),
          Linker.Option.captureCallState("errno"));
  private static final MethodHandle CLOSE =
      LINKER.downcallHandle(
          LINKER.defaultLookup().findOrThrow("close"),
          FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));

  private FileDescriptors() {}

  /**
   * Copies an open descriptor of another process; the caller closes the copy.
   *
   * @param pid the other process, alive
   * @param descriptor number in that process
   */
  public static int copyFrom(long pid, int descriptor) {
    int process = (int) syscall("pidfd_open of process " + pid, SYS_PIDFD_OPEN, pid, 0, 0);
    try {
      return (int)
          syscall(
              "pidfd_getfd of descriptor " + descriptor + " of process " + pid,
              SYS_PIDFD_GETFD,
              process,
              descriptor,
              0);
    } finally {
      close(process);
    }
  }

  /** Closes a descriptor of this process. */
  public static void close(int descriptor) {
    int result;
    try {
      result = (int) CLOSE.invokeExact(descriptor);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
    if (result != 0) {
      throw new Ep4jException(
          ErrorCode.FILE_DESCRIPTOR_COPY,
          "close of descriptor " + descriptor + " failed: it is not open");
    }
  }

  private static long syscall(String what, long number, long first, long second, long third) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment state = arena.allocate(STATE);
      long result;
      try {
        result = (long) SYSCALL.invokeExact(state, number, first, second, third);
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      if (result < 0) {
        int errno = state.get(ValueLayout.JAVA_INT, ERRNO);
        throw new Ep4jException(
            ErrorCode.FILE_DESCRIPTOR_COPY,
            what
                + " failed with errno "
                + errno
                + (errno == EPERM
                    ? ": run both processes as one user with kernel.yama.ptrace_scope 0, in a"
                        + " container with the capability SYS_PTRACE"
                    : ""));
      }
      return result;
    }
  }
}
