package org.ep4j.c;

import java.util.HashMap;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * The callers that have asked for a number, as long as their threads live. Numbers are not used
 * again. Any thread may call.
 */
final class CallerTable {
  private final Map<Long, Caller> callers = new HashMap<>();
  private long last;

  /** Adds a caller; returns its number. Forgets the callers whose threads have ended. */
  synchronized long add(Caller caller) {
    callers.values().removeIf(Caller::isGone);
    last++;
    callers.put(last, caller);
    return last;
  }

  /**
   * Ends the wait of the call that a caller is in; no effect if it is in none or its thread has
   * ended.
   *
   * @throws InvalidArgumentException if no caller ever had the number
   */
  void interrupt(long number) {
    Caller caller = find(number);
    if (caller != null) {
      caller.interrupt();
    }
  }

  private synchronized @Nullable Caller find(long number) {
    if (number < 1 || number > last) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_OBJECT,
          "caller",
          Long.toUnsignedString(number),
          "the number of a thread",
          "pass a number that caller() has returned");
    }
    return callers.get(number);
  }

  /** Number of callers that the table holds. */
  synchronized int size() {
    return callers.size();
  }
}
