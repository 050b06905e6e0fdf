package org.ep4j.nccl;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * What a window of NCCL 2.28 says on the device. That version has no call that tells the addresses
 * of peers to the host, and its structure is not promised to anybody; so each field must be what it
 * can only be if it is what it is taken for, and {@link org.ep4j.cuda.backend.PeerCheck} then tries
 * the addresses.
 *
 * @param base where the memory of the first rank lies for this device
 * @param rankInNode this rank among those that NCCL counts to its NVLink domain
 * @param rank this rank
 * @param stride how far apart the memories lie, in units of 4 GiB
 */
record WindowFields(long base, int rankInNode, int rank, int stride) {
  private static final long PAGE = 4096;

  /** Terabytes are more than a device has. */
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
   * Refuses what cannot be a window of this rank.
   *
   * @param self number of this rank
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
          "the window of this NCCL is not laid out as that of 2.28.9 ("
              + this
              + " on rank "
              + self
              + "): install NCCL 2.29 or newer, which tells the addresses itself, or use backend"
              + " 'direct'");
    }
  }

  /** Where the memory of a rank of this node lies for this device. */
  long address(int of) {
    return base + ((long) (rankInNode + of - rank) * stride << NcclLayouts.STRIDE_SHIFT);
  }
}
