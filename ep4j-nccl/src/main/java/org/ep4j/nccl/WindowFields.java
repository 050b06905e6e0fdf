package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;

/**
 * Content of a window of NCCL 2.28 on the device. That version has no host call for the addresses
 * of peers, and its structure is not a public interface; therefore each field must have a plausible
 * value, and {@link org.ep4j.cuda.backend.PeerCheck} then verifies the addresses.
 *
 * @param base address of the first rank's memory for this device
 * @param rankInNode this rank among the ranks of its NVLink domain as NCCL counts them
 * @param rank this rank
 * @param stride distance between the memories, in units of 4 GiB
 */
record WindowFields(long base, int rankInNode, int rank, int stride) {
  private static final long PAGE = 4096;

  /** In units of 4 GiB: several terabytes, more than a device has. */
  private static final int MAX_STRIDE = 1 << 12;

  static WindowFields of(MemorySegment window) {
    return new WindowFields(
        window.get(ValueLayout.JAVA_LONG_UNALIGNED, field("base")),
        window.get(ValueLayout.JAVA_INT_UNALIGNED, field("rankInNode")),
        window.get(ValueLayout.JAVA_INT_UNALIGNED, field("rank")),
        window.get(ValueLayout.JAVA_INT_UNALIGNED, field("stride")));
  }

  private static long field(String name) {
    return NcclLayouts.offset(NcclLayouts.WINDOW, name);
  }

  /**
   * Rejects content that cannot be a window of this rank.
   *
   * @param self this rank
   */
  void check(int self) {
    boolean sound =
        rank == self
            && rankInNode >= 0
            && rankInNode <= self
            && stride > 0
            && stride <= MAX_STRIDE
            && base > 0
            && base % PAGE == 0;
    if (!sound) {
      throw new NcclException(
          ErrorCode.NCCL_WINDOW_UNAVAILABLE,
          "the window of this NCCL is not laid out as that of 2.28.9 ("
              + this
              + " on rank "
              + self
              + "): install NCCL 2.29 or newer, which reports the addresses, or use backend"
              + " 'direct'");
    }
  }

  /** Address of the memory of a rank of this node for this device. */
  long address(int of) {
    return base + ((long) (rankInNode + of - rank) * stride << NcclLayouts.STRIDE_SHIFT);
  }
}
