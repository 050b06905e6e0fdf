package org.ep4j.memory;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * Zeroed memory of this rank only, reserved in one piece. A page takes memory when touched, so a
 * reservation for the worst case is cheap.
 */
public final class PrivateMemory implements AutoCloseable {
  private final long bytes;
  private long address;

  private PrivateMemory(long address, long bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /** Reserves {@code bytes} bytes, page-aligned, of huge pages if the system grants them. */
  public static PrivateMemory reserve(long bytes) {
    PrivateMemory memory = reserveSparse(bytes);
    Libc.preferHugePages(memory.address, memory.bytes);
    return memory;
  }

  /** The same for memory that is touched here and there: huge pages would hold little each. */
  public static PrivateMemory reserveSparse(long bytes) {
    long size = Math.max(bytes, 1);
    return new PrivateMemory(Libc.mapAnonymous(size), size);
  }

  /** Bytes reserved. */
  public long bytes() {
    return bytes;
  }

  /**
   * First byte.
   *
   * @throws IllegalUseException if closed
   */
  public long address() {
    if (address == 0) {
      throw new IllegalUseException(
          ErrorCode.MEMORY_CLOSED, "the memory is closed: keep its owner open");
    }
    return address;
  }

  @Override
  public void close() {
    if (address != 0) {
      Libc.unmap(address, bytes);
      address = 0;
    }
  }
}
