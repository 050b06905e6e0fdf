package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Access to memory by address. */
@SuppressWarnings("restricted") // UCX returns address and size of its memory
final class NativeBytes {
  /** All memory: offsets are addresses. */
  static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  private NativeBytes() {}

  /** A segment that is valid until {@code arena} is closed. */
  static MemorySegment at(long address, long bytes, Arena arena) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
  }
}
