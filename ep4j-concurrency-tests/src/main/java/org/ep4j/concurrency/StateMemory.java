package org.ep4j.concurrency;

import java.lang.foreign.Arena;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.memory.NativeMemory;

/**
 * Native memory for test states, which jcstress creates by the million and never closes. Slots are
 * assigned from a ring of 131072; at most some ten thousand states are live at once.
 */
final class StateMemory {
  /** Distance between words of different ranks: they never share a cache line. */
  static final long LINE = 128;

  private static final long LINES = 4;
  private static final long SLOT = LINE * LINES;
  private static final long COUNT = 1L << 17;
  private static final long BASE = Arena.global().allocate(SLOT * COUNT, LINE).address();
  private static final AtomicLong NEXT = new AtomicLong();

  private StateMemory() {}

  /** Address of a zeroed slot of four lines. */
  static long take() {
    long address = BASE + NEXT.getAndIncrement() % COUNT * SLOT;
    NativeMemory.fill(address, SLOT, (byte) 0);
    return address;
  }
}
