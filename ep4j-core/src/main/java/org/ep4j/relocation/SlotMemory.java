package org.ep4j.relocation;

import java.lang.foreign.MemorySegment;

/** Where the weights of the experts of this rank lie. */
@FunctionalInterface
public interface SlotMemory {
  /**
   * The memory of a slot, always the same: as long as the weights of an expert, and alive until the
   * relocation is closed. Either native host memory of a shared arena, or memory of a device: its
   * address as {@code MemorySegment.ofAddress(address).reinterpret(bytes)}, which needs {@code
   * ep4j-cuda} on the module path. Copies wait for no stream of the device: work that writes the
   * slots ends before {@link ExpertRelocation#begin}, work that reads them before {@link
   * ExpertRelocation#commit}, and work after the commit finds the new weights.
   *
   * @param local local number of the physical expert on this rank
   */
  MemorySegment of(int local);
}
