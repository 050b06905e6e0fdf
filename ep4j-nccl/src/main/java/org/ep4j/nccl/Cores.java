package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.cuda.internode.proxy.CpuAffinity;

/**
 * The allowed cores of NCCL's threads. NCCL creates a thread for each nonblocking call of a
 * communicator, with the affinity of its creator; a polling thread is pinned to one core, which it
 * never yields. Used by one thread at a time.
 */
final class Cores {
  private final MemorySegment wide;
  private final MemorySegment own;
  private boolean widened;

  /** The affinity of the calling thread. */
  Cores(Arena arena) {
    wide = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
    own = arena.allocate(CpuAffinity.MASK_BYTES, Long.BYTES);
    if (!CpuAffinity.read(wide)) {
      wide.fill((byte) 0xff);
    }
  }

  /** Lets threads that the calling thread creates from now on use all of these cores. */
  void widen() {
    widened = CpuAffinity.read(own) && CpuAffinity.write(wide);
  }

  /** Restores the affinity of the calling thread. */
  void restore() {
    if (widened) {
      boolean ignored = CpuAffinity.write(own);
    }
  }
}
