package org.ep4j.rdma.verbs;

import java.nio.ByteBuffer;

/**
 * Network address of a port, for its peers.
 *
 * @param gidHigh first half of the GID in memory order
 * @param gidLow second half
 * @param gidIndex index of this address on the port; irrelevant to peers
 * @param lid LID in an InfiniBand network
 * @param mtu maximum packet size, as a constant of the library
 * @param ethernet whether this is a RoCE port
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
