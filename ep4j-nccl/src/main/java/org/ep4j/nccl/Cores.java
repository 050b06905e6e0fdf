package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.proxy.CpuAffinity;

/**
 * The cores that threads of NCCL may have. It makes one for each call of a communicator that does
 * not block, on the cores of its maker; and who polls has but one core, and never leaves it. Used
 * by one thread at a time.
 */
final class Cores {
  private final MemorySegment wide;
  private final MemorySegment own;
  private boolean widened;

  /** Those of the calling thread. */
  Cores(Arena arena) {
    wide = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
    own = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
    if (!CpuAffinity.read(wide)) {
      wide.fill((byte) 0xff);
    }
  }

  /** Threads that the calling thread makes from here on may have these cores. */
  void widen() {
    widened = CpuAffinity.read(own) && CpuAffinity.write(wide);
  }

  /** The calling thread is as it was. */
  void restore() {
    if (widened) {
      boolean ignored = CpuAffinity.write(own);
    }
  }
}
