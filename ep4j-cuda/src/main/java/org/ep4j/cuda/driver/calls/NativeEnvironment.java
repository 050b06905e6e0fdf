package org.ep4j.cuda.driver.calls;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The environment that native libraries of this process read. The environment that Java and child
 * processes see does not change after the start of the JVM.
 */
@SuppressWarnings("restricted") // links native functions
public final class NativeEnvironment {
  private static final MethodHandle SETENV =
      Linker.nativeLinker()
          .downcallHandle(
              Linker.nativeLinker().defaultLookup().findOrThrow("setenv"),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_INT));

  private NativeEnvironment() {}

  /** Sets a variable unless it is set; call before the library that reads it is loaded. */
  public static void setDefault(String name, String value) {
    try (Arena arena = Arena.ofConfined()) {
      int ignored =
          (int)
              SETENV.invokeExact(
                  arena.allocateFrom(name).address(), arena.allocateFrom(value).address(), 0);
    } catch (Throwable t) {
      throw CudaException.unexpected(t);
    }
  }
}
