package org.ep4j.memory;

/**
 * Zeroed memory of this rank alone, reserved in one piece; a page takes memory only once it is
 * touched, so reserving for the worst case is cheap. Huge pages where the system grants them.
 */
public final class PrivateMemory implements AutoCloseable {
  private final long bytes;
  private long address;

  private PrivateMemory(long address, long bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /** Reserves {@code bytes} bytes, page-aligned. */
  public static PrivateMemory reserve(long bytes) {
    long size = Math.max(bytes, 1);
    long address = Libc.mapAnonymous(size);
    Libc.preferHugePages(address, size);
    return new PrivateMemory(address, size);
  }

  /** Bytes reserved. */
  public long bytes() {
    return bytes;
  }

  /**
   * First byte.
   *
   * @throws IllegalStateException if closed
   */
  public long address() {
    if (address == 0) {
      throw new IllegalStateException("the memory has been closed");
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
