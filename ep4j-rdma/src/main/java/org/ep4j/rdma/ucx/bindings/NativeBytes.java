package org.ep4j.rdma.ucx.bindings;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Access to memory by address. */
@SuppressWarnings("restricted") // UCX returns address and size of its memory
public final class NativeBytes {
  /** All memory: offsets are addresses. */
  public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  private NativeBytes() {}

  /** A segment that is valid until {@code arena} is closed. */
  public static MemorySegment at(long address, long bytes, Arena arena) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
  }
}
