package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Memory that UCX names by its address. */
@SuppressWarnings("restricted") // UCX says where its memory is and how much
final class NativeBytes {
  /** All memory: offsets in it are addresses. */
  static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  private NativeBytes() {}

  /** A segment that can be used until {@code arena} is closed. */
  static MemorySegment at(long address, long bytes, Arena arena) {
    return MemorySegment.ofAddress(address).reinterpret(bytes, arena, null);
  }
}
