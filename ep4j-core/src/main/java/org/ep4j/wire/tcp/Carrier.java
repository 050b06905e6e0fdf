package org.ep4j.wire.tcp;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * Transfers batches of bytes beside one connection, in both directions, by matching calls of
 * another library on both ranks. The connection's socket agrees on each batch before either side
 * makes its call, so a carrier never waits for a peer with other work.
 *
 * <p>Batches are in slots; number and length of the slots are the same at both ends. The batches of
 * a direction are sent and received in the same order at both ends, and complete in that order.
 * Used by the thread that drives the connection; no call blocks, and a warm carrier allocates
 * nothing.
 */
public interface Carrier {
  /** Slots of each direction. */
  int slots();

  /** Memory of a batch before it is sent. */
  MemorySegment outgoing(int slot);

  /** Memory of a batch after it was received. */
  MemorySegment incoming(int slot);

  /**
   * Begins to send the first bytes of a slot; the peer has begun to receive them.
   *
   * @return false if not possible yet: try again
   * @throws IOException if this carrier can send no more
   */
  boolean send(int slot, int bytes) throws IOException;

  /**
   * Begins to receive bytes into a slot; the peer will send as many.
   *
   * @return false if not possible yet: try again
   * @throws IOException if this carrier can receive no more
   */
  boolean receive(int slot, int bytes) throws IOException;

  /**
   * Number of batches that have left their slots and arrive without this rank. Advances the
   * transfers. Called until the receiver has read all.
   *
   * @throws IOException if a batch can no longer leave, or the carrier has failed: one that has
   *     left may never arrive, and the receiver need not notice
   */
  long sent() throws IOException;

  /**
   * Number of batches that are complete in their slots, visible to this thread. Advances the
   * transfers.
   *
   * @throws IOException if a batch can no longer arrive
   */
  long received() throws IOException;

  /**
   * Aborts all transfers; a second call has no effect. Does not wait for the peer: {@link
   * CarrierService#close} waits for transfers that take time.
   */
  void close();
}
