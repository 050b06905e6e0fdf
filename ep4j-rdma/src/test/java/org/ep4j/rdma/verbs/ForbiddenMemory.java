package org.ep4j.rdma.verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Host pages that can be protected: access by the process then crashes it. */
@SuppressWarnings("restricted") // links a native function
final class ForbiddenMemory implements AutoCloseable {
  private static final long PAGE = 4096;
  private static final int PROT_NONE = 0;
  private static final int PROT_READ_AND_WRITE = 1 | 2;

  private static final MethodHandle MPROTECT =
      Linker.nativeLinker()
          .downcallHandle(
              Linker.nativeLinker().defaultLookup().findOrThrow("mprotect"),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_INT));

  private final Arena arena = Arena.ofShared();
  private final MemorySegment pages;
  private final MemorySegment segment;

  ForbiddenMemory(long bytes) {
    pages = arena.allocate(Math.ceilDiv(bytes, PAGE) * PAGE, PAGE);
    segment = pages.asSlice(0, bytes);
  }

  MemorySegment segment() {
    return segment;
  }

  void forbid() {
    protect(PROT_NONE);
  }

  void allow() {
    protect(PROT_READ_AND_WRITE);
  }

  private void protect(int protection) {
    int result;
    try {
      result = (int) MPROTECT.invokeExact(pages.address(), pages.byteSize(), protection);
    } catch (Throwable t) {
      throw new IllegalStateException("mprotect", t);
    }
    if (result != 0) {
      throw new IllegalStateException("mprotect failed");
    }
  }

  /** Restores access first: the allocator uses these pages. */
  @Override
  public void close() {
    allow();
    arena.close();
  }
}
