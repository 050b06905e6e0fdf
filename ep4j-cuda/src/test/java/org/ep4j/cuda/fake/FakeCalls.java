package org.ep4j.cuda.fake;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.NativeStrings;
import org.jspecify.annotations.Nullable;

/** Binding of the functions by which tests control the fake driver. */
@SuppressWarnings("restricted") // links native functions
final class FakeCalls {
  /** Arguments of a recorded call. */
  static final int ARGUMENTS = 8;

  private static final SymbolLookup SYMBOLS =
      SymbolLookup.libraryLookup(
          Path.of(System.getenv().getOrDefault(CudaDriver.LIBRARY_VARIABLE, "")), Arena.global());

  private static final MethodHandle RESET = link("fake_reset", null);
  private static final MethodHandle FORGET_CALLS = link("fake_forget_calls", null);
  private static final MethodHandle RECORD = link("fake_record", null, ValueLayout.JAVA_INT);
  private static final MethodHandle FAIL =
      link("fake_fail", null, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT);
  private static final MethodHandle CALLS =
      link("fake_calls", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle LIVE =
      link("fake_live", ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle MEMORY =
      link("fake_memory", null, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle KERNEL =
      link("fake_kernel", null, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
  private static final MethodHandle STORE =
      link(
          "fake_store",
          null,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG,
          ValueLayout.JAVA_LONG);
  private static final MethodHandle CLUSTER =
      link("fake_cluster", null, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
  private static final MethodHandle REGISTRATION =
      link("fake_registration", null, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
  private static final MethodHandle HOLD = link("fake_hold", null, ValueLayout.JAVA_INT);

  private FakeCalls() {}

  static void reset() {
    try {
      RESET.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void forgetCalls() {
    try {
      FORGET_CALLS.invokeExact();
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void record(int on) {
    try {
      RECORD.invokeExact(on);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void fail(long function, long nth, int code) {
    try {
      FAIL.invokeExact(function, nth, code);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  /** The calls so far, of {@code 2 + ARGUMENTS} words each: name, result, arguments. */
  static long[][] calls() {
    return rows(CALLS, 2 + ARGUMENTS);
  }

  /** The objects that are created and not released, of two words each: kind, handle. */
  static long[][] live() {
    return rows(LIVE, 2);
  }

  /** What a function copies, as of one moment: it returns how many rows there are. */
  private static long[][] rows(MethodHandle copy, int words) {
    long room = 256;
    while (true) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, room * words);
        long count = (long) copy.invokeExact(out.address(), room);
        if (count <= room) {
          long[][] rows = new long[(int) count][];
          for (int i = 0; i < count; i++) {
            rows[i] =
                out.asSlice((long) i * words * Long.BYTES, (long) words * Long.BYTES)
                    .toArray(ValueLayout.JAVA_LONG);
          }
          return rows;
        }
        room = 2 * count;
      } catch (Throwable t) {
        throw new AssertionError(t);
      }
    }
  }

  static void memory(long address, long out) {
    try {
      MEMORY.invokeExact(address, out);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void kernel(long suffix, long parameterBytes) {
    try {
      KERNEL.invokeExact(suffix, parameterBytes);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void store(long suffix, long address, long offset, long parameter, long constant) {
    try {
      STORE.invokeExact(suffix, address, offset, parameter, constant);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void cluster(int device, int cluster) {
    try {
      CLUSTER.invokeExact(device, cluster);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void registration(int state, int status) {
    try {
      REGISTRATION.invokeExact(state, status);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  static void hold(int on) {
    try {
      HOLD.invokeExact(on);
    } catch (Throwable t) {
      throw new AssertionError(t);
    }
  }

  /** Text of the fake's process memory. */
  static String text(long address) {
    return NativeStrings.read(address);
  }

  /** Bytes of the fake's process memory. */
  static MemorySegment bytes(long address, long bytes) {
    return MemorySegment.ofAddress(address).reinterpret(bytes);
  }

  private static MethodHandle link(
      String symbol, @Nullable MemoryLayout result, MemoryLayout... parameters) {
    return Linker.nativeLinker()
        .downcallHandle(
            SYMBOLS.findOrThrow(symbol),
            result == null
                ? FunctionDescriptor.ofVoid(parameters)
                : FunctionDescriptor.of(result, parameters));
  }
}
