package org.ep4j.relocation;

import java.lang.foreign.MemorySegment;

/** Where the weights of the experts of this rank lie. */
@FunctionalInterface
public interface SlotMemory {
  /**
   * The memory of a slot, always the same: native host memory of a shared arena, as long as the
   * weights of an expert, and alive until the relocation is closed. Memory of a device is refused.
   *
   * @param local local number of the physical expert on this rank
   */
  MemorySegment of(int local);
}
