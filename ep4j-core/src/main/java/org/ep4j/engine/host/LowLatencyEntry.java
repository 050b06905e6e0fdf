package org.ep4j.engine.host;

import org.ep4j.Event;
import org.jspecify.annotations.Nullable;

/**
 * What low-latency operations need from the buffer they belong to. Hooks come back into the buffer
 * without passing through it, so they ask here.
 */
interface LowLatencyEntry {
  /**
   * Begins a call: refuses a closed or failed buffer and a second thread, and waits until no
   * asynchronous operation is queued.
   */
  void enter();

  /** Ends the call that {@link #enter} began. */
  void exit();

  /** Refuses to go on with a buffer that {@link #failed}. */
  void requireUsable();

  /** From now on the buffer accepts only reset and close; the others are told. */
  void failed(String reason, RuntimeException cause);

  /** Runs {@code work} after what was queued before; its error comes out of the event. */
  Event later(Runnable work);

  /** Waits for an event that an operation is to follow; bounded. */
  void awaitPrevious(@Nullable Event previous, String operation);
}
