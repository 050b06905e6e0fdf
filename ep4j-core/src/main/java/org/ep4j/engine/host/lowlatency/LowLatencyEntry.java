package org.ep4j.engine.host.lowlatency;

import org.ep4j.engine.lowlatency.Flights;
import org.ep4j.execution.Event;
import org.jspecify.annotations.Nullable;

/**
 * The functions of the buffer that low-latency operations use. {@link #enter} also waits until no
 * asynchronous operation is queued.
 */
public interface LowLatencyEntry extends Flights.Entry {
  /** Accepts only reset and close from now on, and notifies the other ranks. */
  void failed(String reason, RuntimeException cause);

  /** Runs {@code work} after all queued operations; its event reports its error. */
  Event later(Runnable work);

  /** Waits for the event that an operation depends on, with a deadline. */
  void awaitPrevious(@Nullable Event previous, String operation);
}
