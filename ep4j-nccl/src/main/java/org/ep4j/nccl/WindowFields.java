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
 * @param rankInNode this rank
 * @param rank this rank
 * @param stride how far apart the memories lie, in units of 4 GiB
 */
record WindowFields(long base, int rankInNode, int rank, int stride) {
  private static final long PAGE = 4096;

  /** Terabytes are more than a device has. */
  private static final int MOST_STRIDE = 1 << 12;

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

  /** By rank, where the memory of each lies for this device. All ranks are in one node. */
  long[] addresses(int ranks, int self) {
    boolean sound =
        rank == self
            && rankInNode == self
            && stride > 0
            && stride <= MOST_STRIDE
            && base > 0
            && base % PAGE == 0;
    if (!sound) {
      throw new NcclException(
          "the window of this NCCL is not laid out as that of 2.28.9 ("
              + this
              + " on rank "
              + self
              + " of "
              + ranks
              + "), or not all ranks are in one NVLink domain: install NCCL 2.29 or newer, which tells"
              + " the addresses itself, or use backend 'direct'");
    }
    long[] addresses = new long[ranks];
    for (int r = 0; r < ranks; r++) {
      addresses[r] = base + ((long) r * stride << NcclLayouts.STRIDE_SHIFT);
    }
    return addresses;
  }
}
