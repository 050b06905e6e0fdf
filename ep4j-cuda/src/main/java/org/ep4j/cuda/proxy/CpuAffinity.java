package org.ep4j.cuda.proxy;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.ep4j.Ep4jException;

/** Binding of the Linux calls that say on which cores a thread may run. */
@SuppressWarnings("restricted") // linking native functions is what this class is for
final class CpuAffinity {
  /** Cores that a mask tells apart. */
  static final int CORES = 1024;

  private static final int MASK_BYTES = CORES / Byte.SIZE;
  private static final Linker LINKER = Linker.nativeLinker();
  private static final FunctionDescriptor CALL =
      FunctionDescriptor.of(
          ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
  private static final MethodHandle SET =
      LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow("sched_setaffinity"), CALL);

  private CpuAffinity() {}

  /** Lets the calling thread run on one core only. */
  static void pin(int core) {
    int result;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment mask = arena.allocate(MASK_BYTES, Long.BYTES);
      mask.set(ValueLayout.JAVA_BYTE, core / Byte.SIZE, (byte) (1 << core % Byte.SIZE));
      result = (int) SET.invokeExact(0, (long) MASK_BYTES, mask);
    } catch (Throwable t) {
      throw new Ep4jException("sched_setaffinity failed: " + t, t);
    }
    if (result != 0) {
      throw new Ep4jException(
          "sched_setaffinity to core " + core + " failed: taskset -p $$ shows the cores there are");
    }
  }
}
