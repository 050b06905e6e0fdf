package org.ep4j.rdma.verbs;

import java.nio.ByteBuffer;

/**
 * Where a port is, for its peers.
 *
 * @param gidHigh first half of the GID, as it lies in memory
 * @param gidLow second half
 * @param gidIndex which of its addresses that is; of no use to others
 * @param lid its number in an InfiniBand network
 * @param mtu longest packet, as a number of the library
 * @param ethernet whether it is a port of RoCE
 */
record PortAddress(long gidHigh, long gidLow, int gidIndex, short lid, int mtu, boolean ethernet) {
  static final int GID_BYTES = 16;

  /** Bytes of {@link #put}. */
  static final int BYTES = GID_BYTES + 2 + 1 + 1;

  void put(ByteBuffer to) {
    to.putLong(gidHigh)
        .putLong(gidLow)
        .putShort(lid)
        .put((byte) mtu)
        .put((byte) (ethernet ? 1 : 0));
  }

  static PortAddress get(ByteBuffer from) {
    return new PortAddress(
        from.getLong(), from.getLong(), -1, from.getShort(), from.get(), from.get() == 1);
  }
}
