package org.ep4j.rdma.verbs;

import java.nio.ByteBuffer;
import org.ep4j.rdma.verbs.bindings.VerbsControlLayout;

/**
 * Address of one end of a queue pair, for the other end.
 *
 * @param number number of the queue pair on its device
 * @param firstPacket number of its first sent packet
 * @param block address of its {@link VerbsControlLayout}
 * @param key remote key of this memory
 */
record PairAddress(int number, int firstPacket, long block, int key) {
  /** Bytes of {@link #put}. */
  static final int BYTES = 4 + 4 + 8 + 4;

  void put(ByteBuffer to) {
    to.putInt(number).putInt(firstPacket).putLong(block).putInt(key);
  }

  static PairAddress get(ByteBuffer from) {
    return new PairAddress(from.getInt(), from.getInt(), from.getLong(), from.getInt());
  }
}
