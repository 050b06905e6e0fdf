package org.ep4j.wire.tcp;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/**
 * Carries batches of bytes beside one connection, in both directions: what another library moves
 * between two ranks by pairs of matching calls. The connection's own socket agrees on each batch
 * before either side makes its call, so that a carrier never has to wait for a peer that has other
 * things to do.
 *
 * <p>Batches lie in slots, as many and as long at both ends. Those of a direction are sent and
 * received in the same order at both ends, and end in that order. Used by the thread that drives
 * the connection; no call blocks, and none allocates, once warm.
 */
public interface Carrier {
  /** Slots of each direction. */
  int slots();

  /** Where a batch lies before it is sent. */
  MemorySegment outgoing(int slot);

  /** Where a batch lies once it has been received. */
  MemorySegment incoming(int slot);

  /**
   * Begins to send the first bytes of a slot; the peer has begun to receive them.
   *
   * @return false if not yet: try again
   * @throws IOException if this carrier can send no more
   */
  boolean send(int slot, int bytes) throws IOException;

  /**
   * Begins to receive bytes into a slot; the peer will begin to send as many.
   *
   * @return false if not yet: try again
   * @throws IOException if this carrier can receive no more
   */
  boolean receive(int slot, int bytes) throws IOException;

  /**
   * How many batches have left their slots so far: they arrive without this rank. Moves them along.
   *
   * @throws IOException if one can no longer leave
   */
  long sent() throws IOException;

  /**
   * How many batches lie in their slots so far, visible to this thread. Moves them along.
   *
   * @throws IOException if one can no longer come
   */
  long received() throws IOException;

  /**
   * Gives everything up, whatever is under way; a second call does nothing. Does not wait for the
   * peer: what takes time goes on by itself, and {@link CarrierService#close} waits for it.
   */
  void close();
}
