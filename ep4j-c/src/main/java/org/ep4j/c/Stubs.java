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
import java.util.Arrays;
import java.util.Collections;
import org.ep4j.error.ErrorCode;

/**
 * Binding of the table: makes a native function of each method. This is the one place where
 * exceptions end: an exception that leaves a stub would end the process.
 */
@SuppressWarnings("restricted") // making native functions is what this class is for
final class Stubs {
  private static final MethodHandle IS_OWNER;
  private static final MethodHandle STATUS_OF;
  private static final MethodHandle ENTER;
  private static final MethodHandle LEAVE;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      IS_OWNER =
          lookup.findStatic(ProcessIdentity.class, "isOwner", MethodType.methodType(boolean.class));
      STATUS_OF =
          lookup.findStatic(
              Failures.class, "status", MethodType.methodType(int.class, Throwable.class));
      ENTER = lookup.findStatic(Caller.class, "enter", MethodType.methodType(Caller.class));
      LEAVE =
          lookup.findStatic(
              Caller.class,
              "leave",
              MethodType.methodType(int.class, Throwable.class, int.class, Caller.class));
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
      // Registers hold int parameters as well; the cast drops their upper halves. Functions of as
      // many parameters share a type: the JVM takes 10 ms for each type.
      MethodHandle function =
          MethodHandles.explicitCastArguments(
              MethodHandles.lookup().unreflect(method), longs(method.getParameterCount()));
      MethodHandle safe =
          MethodHandles.catchException(interruptible(function), Throwable.class, STATUS_OF);
      // Without an exception: nothing collects garbage in a forked child.
      MethodHandle refused =
          MethodHandles.dropArguments(
              MethodHandles.constant(int.class, ErrorCode.FORKED_PROCESS.number()),
              0,
              safe.type().parameterList());
      MethodHandle checked = MethodHandles.guardWithTest(IS_OWNER, safe, refused);
      return Linker.nativeLinker().upcallStub(checked, descriptor(method), Arena.global());
    } catch (IllegalAccessException e) {
      throw new AssertionError("the methods are in this package", e);
    }
  }

  /** The function as a call of a {@link Caller}. */
  private static MethodHandle interruptible(MethodHandle function) {
    MethodHandle call = MethodHandles.dropArguments(function, 0, Caller.class);
    return MethodHandles.foldArguments(MethodHandles.tryFinally(call, LEAVE), ENTER);
  }

  private static MethodType longs(int parameters) {
    return MethodType.methodType(int.class, Collections.nCopies(parameters, long.class));
  }

  private static FunctionDescriptor descriptor(Method method) {
    MemoryLayout[] parameters = new MemoryLayout[method.getParameterCount()];
    Arrays.fill(parameters, ValueLayout.JAVA_LONG);
    return FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters);
  }
}
