package org.ep4j.memory;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * An arena for large tensors. Allocations of megabytes use their own zeroed pages, which take
 * memory when touched, as huge pages if the system grants them: rows that are read or written once
 * need fewer address translations, which saves a tenth of a dispatch and more of a combine. Small
 * allocations are as in any arena. Any thread may allocate, use and close.
 */
@SuppressWarnings(
    "restricted") // giving mapped memory bounds and an owner is what this class is for
public final class PageArena implements Arena {
  private static final long HUGE_PAGE = 2L << 20;
  private static final long PAGE = 4096;

  private final Arena pieces = Arena.ofShared();

  /** A new arena. */
  public PageArena() {}

  @Override
  public MemorySegment allocate(long byteSize, long byteAlignment) {
    if (byteSize < HUGE_PAGE || byteAlignment > PAGE) {
      return pieces.allocate(byteSize, byteAlignment);
    }
    long address = Libc.mapAnonymous(byteSize);
    Libc.preferHugePages(address, byteSize);
    try {
      return MemorySegment.ofAddress(address)
          .reinterpret(byteSize, pieces, piece -> Libc.unmap(address, byteSize));
    } catch (RuntimeException e) {
      Libc.unmap(address, byteSize); // the arena is closed
      throw e;
    }
  }

  @Override
  public MemorySegment.Scope scope() {
    return pieces.scope();
  }

  @Override
  public void close() {
    pieces.close();
  }
}
