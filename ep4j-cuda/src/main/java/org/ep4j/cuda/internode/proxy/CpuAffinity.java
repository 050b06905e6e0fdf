package org.ep4j.cuda.internode.proxy;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * Binding of the Linux calls that read and set the allowed cores of the calling thread and of
 * threads that it creates later. A mask has one bit per core, the first in the lowest bit of the
 * first byte.
 */
@SuppressWarnings("restricted") // links native functions
public final class CpuAffinity {
  /** Number of cores in a mask. */
  static final int CORES = 1024;

  /** Bytes of a mask. */
  public static final int MASK_BYTES = CORES / Byte.SIZE;

  private static final int CALLING_THREAD = 0;
  private static final Linker LINKER = Linker.nativeLinker();
  private static final FunctionDescriptor CALL =
      FunctionDescriptor.of(
          ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
  private static final MethodHandle GET = link("sched_getaffinity");
  private static final MethodHandle SET = link("sched_setaffinity");

  private CpuAffinity() {}

  private static MethodHandle link(String symbol) {
    return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(symbol), CALL);
  }

  /** Writes the mask of the calling thread; returns whether that succeeded. */
  public static boolean read(MemorySegment mask) {
    return call(GET, "sched_getaffinity", mask) >= 0;
  }

  /** Sets the mask of the calling thread; returns whether that succeeded. */
  public static boolean write(MemorySegment mask) {
    return call(SET, "sched_setaffinity", mask) == 0;
  }

  private static int call(MethodHandle function, String name, MemorySegment mask) {
    try {
      return (int) function.invokeExact(CALLING_THREAD, (long) MASK_BYTES, mask);
    } catch (Throwable t) {
      throw new Ep4jException(ErrorCode.CORE_PINNING_FAILED, name + " failed: " + t, t);
    }
  }

  /** Lets the calling thread run on one core only. */
  static void pin(int core) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(MASK_BYTES, Long.BYTES);
      mask.set(ValueLayout.JAVA_BYTE, core / Byte.SIZE, (byte) (1 << core % Byte.SIZE));
      if (!write(mask)) {
        throw new Ep4jException(
            ErrorCode.CORE_PINNING_FAILED,
            "sched_setaffinity to core "
                + core
                + " failed: choose one of the cores that taskset -p $$ shows");
      }
    }
  }
}
