package org.ep4j.engine.host.lowlatency;

import org.ep4j.Event;
import org.jspecify.annotations.Nullable;

/**
 * The functions of the buffer that low-latency operations use. Callers invoke hooks directly,
 * without a method of the buffer, so hooks call these.
 */
public interface LowLatencyEntry {
  /**
   * Begins a call: refuses a closed or failed buffer and a second thread, and waits until no
   * asynchronous operation is queued.
   */
  void enter();

  /** Ends the call that {@link #enter} began. */
  void exit();

  /** Throws if the buffer has {@link #failed}. */
  void requireUsable();

  /** Accepts only reset and close from now on, and notifies the other ranks. */
  void failed(String reason, RuntimeException cause);

  /** Runs {@code work} after all queued operations; its event reports its error. */
  Event later(Runnable work);

  /** Waits for the event that an operation depends on, with a deadline. */
  void awaitPrevious(@Nullable Event previous, String operation);
}
