package org.ep4j;

import java.util.List;

/**
 * Memory of a buffer on each rank, in bytes, part by part; on the rank that takes the most. The
 * host engine reserves address space only: a page takes memory when first touched.
 *
 * <p>Not included: what the driver, its kernels and libraries such as NCCL, and a wire beside its
 * regions take for themselves; heap of the JVM.
 *
 * @param parts every part
 * @param lowLatencyCommunicationBytes the part of {@link #symmetricBytes} that low-latency
 *     operations need
 */
public record BufferSizes(List<Part> parts, long lowLatencyCommunicationBytes) {
  /** The ranks that use memory, and when it is taken. */
  public enum Use {
    /** Memory that peers can reach, taken when the buffer opens. */
    PEERS,
    /** Memory of this rank only, taken when the buffer opens. */
    PRIVATE,
    /**
     * Memory of this rank only, taken when an operation first needs it. The parts are those of
     * calls with tensors of the rank's device whose results are BF16, and of one open handle. More
     * open handles take as much each, FP32 results twice as much, and tensors of the host as much
     * as they have.
     */
    FIRST_USE
  }

  /**
   * A part of the memory.
   *
   * @param name what it holds
   * @param use the ranks that use it, and when it is taken
   * @param onDevice whether it is memory of a GPU; otherwise of the host, page-locked for a GPU
   * @param bytes size
   */
  public record Part(String name, Use use, boolean onDevice, long bytes) {}

  /** Copies the list. */
  public BufferSizes {
    parts = List.copyOf(parts);
  }

  /** Bytes that peers can reach. */
  public long symmetricBytes() {
    return bytes(Use.PEERS);
  }

  /** Bytes of this rank only that the open buffer has. */
  public long privateBytes() {
    return bytes(Use.PRIVATE);
  }

  /** Bytes of this rank only that operations add at their first use. */
  public long firstUseBytes() {
    return bytes(Use.FIRST_USE);
  }

  /** Bytes of all parts. */
  public long totalBytes() {
    return symmetricBytes() + privateBytes() + firstUseBytes();
  }

  private long bytes(Use use) {
    long sum = 0;
    for (Part part : parts) {
      sum += part.use == use ? part.bytes : 0;
    }
    return sum;
  }
}
