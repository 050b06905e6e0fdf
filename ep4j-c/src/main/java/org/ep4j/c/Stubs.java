package org.ep4j.c;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;

/**
 * Binding of the table: makes a native function of each method. This is the one place where
 * exceptions end: an exception that leaves a stub would end the process.
 */
@SuppressWarnings("restricted") // making native functions is what this class is for
final class Stubs {
  private static final MethodHandle CHECK_PROCESS;
  private static final MethodHandle STATUS_OF;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      CHECK_PROCESS =
          lookup.findStatic(ProcessIdentity.class, "check", MethodType.methodType(void.class));
      STATUS_OF =
          lookup.findStatic(
              Failures.class, "status", MethodType.methodType(int.class, Throwable.class));
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private Stubs() {}

  /** A table {@code ep4j_api}, for the life of the process. */
  static long table(ApiFunction[] functions, long version) {
    MemorySegment table = Arena.global().allocate(ValueLayout.JAVA_LONG, 2L + functions.length);
    table.setAtIndex(ValueLayout.JAVA_LONG, 0, table.byteSize());
    table.setAtIndex(ValueLayout.JAVA_LONG, 1, version);
    for (int i = 0; i < functions.length; i++) {
      table.setAtIndex(ValueLayout.JAVA_LONG, 2L + i, stub(functions[i].method()).address());
    }
    return table.address();
  }

  private static MemorySegment stub(Method method) {
    try {
      MethodHandle function = MethodHandles.lookup().unreflect(method);
      MethodHandle checked = MethodHandles.foldArguments(function, CHECK_PROCESS);
      MethodHandle safe = MethodHandles.catchException(checked, Throwable.class, STATUS_OF);
      return Linker.nativeLinker().upcallStub(safe, descriptor(method), Arena.global());
    } catch (IllegalAccessException e) {
      throw new AssertionError("the methods are in this package", e);
    }
  }

  /** The C function of a method whose parameters are {@code int} or {@code long}. */
  static FunctionDescriptor descriptor(Method method) {
    Class<?>[] types = method.getParameterTypes();
    MemoryLayout[] parameters = new MemoryLayout[types.length];
    for (int i = 0; i < types.length; i++) {
      parameters[i] = types[i] == int.class ? ValueLayout.JAVA_INT : ValueLayout.JAVA_LONG;
    }
    return FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters);
  }
}
