package org.ep4j.c;

import org.ep4j.c.struct.Struct;
import org.ep4j.memory.NativeMemory;

/** Interrupts of calls. */
final class CallerFunctions {
  private static final CallerTable TABLE = new CallerTable();

  private static final ThreadLocal<Long> NUMBER =
      ThreadLocal.withInitial(() -> TABLE.add(Caller.present()));

  private CallerFunctions() {}

  static int caller(long caller) {
    Struct.requirePointer("caller", caller);
    NativeMemory.putLong(caller, NUMBER.get());
    return 0;
  }

  static int interrupt(long caller) {
    TABLE.interrupt(caller);
    return 0;
  }
}
