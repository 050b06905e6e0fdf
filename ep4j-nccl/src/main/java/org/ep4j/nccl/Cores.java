package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * The cores that threads of NCCL may have. It makes one for each call of a communicator that does
 * not block, on the cores of its maker; and who polls has but one core, and never leaves it. Used
 * by one thread at a time.
 */
final class Cores {
  private static final int MASK_BYTES = 128;

  private final MemorySegment wide;
  private final MemorySegment own;

  /** Those of the calling thread. */
  Cores(Arena arena) {
    wide = arena.allocate(MASK_BYTES, Long.BYTES);
    own = arena.allocate(MASK_BYTES, Long.BYTES);
    if (CoreCalls.get(wide) < 0) {
      wide.fill((byte) 0xff);
    }
  }

  /** Threads that the calling thread makes from here on may have these cores. */
  void widen() {
    if (CoreCalls.get(own) >= 0) {
      int ignored = CoreCalls.set(wide);
    }
  }

  /** The calling thread is as it was. */
  void restore() {
    int ignored = CoreCalls.set(own);
  }
}
