package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Binding of the driver's names and texts for result codes, and the codes that are not errors. */
@SuppressWarnings("restricted") // links native functions
final class CudaResults {
  private static final MethodHandle GET_ERROR_NAME = link(DriverFunction.GET_ERROR_NAME);
  private static final MethodHandle GET_ERROR_STRING = link(DriverFunction.GET_ERROR_STRING);

  private CudaResults() {}

  /** Name of a result, {@code CUDA_ERROR_…}. */
  static String name(int result) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int found;
      try {
        found = (int) GET_ERROR_NAME.invokeExact(result, out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      return found == DriverConstants.CUDA_SUCCESS
          ? NativeStrings.read(out.get(ValueLayout.JAVA_LONG, 0))
          : "an unknown result";
    }
  }

  /** Text of a result. */
  static String text(int result) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int found;
      try {
        found = (int) GET_ERROR_STRING.invokeExact(result, out.address());
      } catch (Throwable t) {
        throw CudaException.unexpected(t);
      }
      return found == DriverConstants.CUDA_SUCCESS
          ? NativeStrings.read(out.get(ValueLayout.JAVA_LONG, 0))
          : "newer than this driver";
    }
  }

  private static MethodHandle link(DriverFunction function) {
    return Linker.nativeLinker()
        .downcallHandle(DriverLibrary.address(function), function.descriptor());
  }
}
