package org.ep4j;

/** Second half of a low-latency operation that was started with {@code returnHook}. */
@FunctionalInterface
public interface ReceiveHook {
  /**
   * Receives what the peers sent. Call it once, on the thread that uses the buffer, before the
   * second next low-latency operation.
   *
   * @throws PeerTimeoutException if a peer stays silent and masking is off
   * @throws IllegalStateException if called twice
   */
  void receive();
}
