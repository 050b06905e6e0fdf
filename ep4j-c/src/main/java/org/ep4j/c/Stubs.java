package org.ep4j.c;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.Collections;
import org.ep4j.error.ErrorCode;

/**
 * Binding of the table: makes a native function of each {@link ApiFunction}. All have one type, of
 * as many integers as the registers of x86-64 take (AArch64 has more), and share one method: the
 * start of the JVM takes longer with each type, and with each combination of method handles.
 */
@SuppressWarnings("restricted") // making native functions is what this class is for
final class Stubs {
  private static final int REGISTERS = 6;

  private static final FunctionDescriptor TYPE =
      FunctionDescriptor.of(
          ValueLayout.JAVA_INT,
          Collections.nCopies(REGISTERS, ValueLayout.JAVA_LONG).toArray(new MemoryLayout[0]));

  private Stubs() {}

  /** A table {@code ep4j_api}, for the life of the process. */
  static long table(ApiFunction[] functions, long version) {
    MemorySegment table = Arena.global().allocate(ValueLayout.JAVA_LONG, 2L + functions.length);
    table.setAtIndex(ValueLayout.JAVA_LONG, 0, table.byteSize());
    table.setAtIndex(ValueLayout.JAVA_LONG, 1, version);
    MethodHandle call = call();
    for (int i = 0; i < functions.length; i++) {
      MethodHandle bound = MethodHandles.insertArguments(call, 0, functions[i]);
      MemorySegment stub = Linker.nativeLinker().upcallStub(bound, TYPE, Arena.global());
      table.setAtIndex(ValueLayout.JAVA_LONG, 2L + i, stub.address());
    }
    return table.address();
  }

  private static MethodHandle call() {
    try {
      return MethodHandles.lookup()
          .findStatic(
              Stubs.class, "call", TYPE.toMethodType().insertParameterTypes(0, ApiFunction.class));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("the method is in this class", e);
    }
  }

  /**
   * A call of native code. This is the one place where exceptions end: an exception that leaves a
   * stub would end the process.
   */
  @SuppressWarnings("unused") // the table calls it by a method handle
  private static int call(ApiFunction function, long a, long b, long c, long d, long e, long f) {
    if (!ProcessIdentity.isOwner()) {
      // Without an exception: nothing collects garbage in a forked child.
      return ErrorCode.FORKED_PROCESS.number();
    }
    try {
      Caller caller = Caller.enter();
      try {
        return function.call(a, b, c, d, e, f);
      } finally {
        caller.leave();
      }
    } catch (Throwable t) {
      return Failures.status(t);
    }
  }
}
