package org.ep4j.execution;

import org.ep4j.error.PeerTimeoutException;

/** Receiving half of a low-latency operation with {@code returnHook}. */
@FunctionalInterface
public interface ReceiveHook {
  /**
   * Receives the rows that the peers sent. Call it once, on the thread that uses the buffer, before
   * the second next low-latency operation.
   *
   * @throws PeerTimeoutException if a peer stays silent and masking is off
   * @throws IllegalStateException on a second call
   */
  void receive();
}
