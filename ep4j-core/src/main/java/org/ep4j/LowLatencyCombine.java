package org.ep4j;

import org.ep4j.execution.Event;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.tensor.Tensor;

/**
 * Result of a low-latency combine. Views with the lifetime that {@link
 * LowLatencyCombineOptions#out()} defines.
 */
public interface LowLatencyCombine {
  /** Weighted sums BF16 [T, H]; with a hook valid after the hook has run. */
  Tensor x();

  /**
   * The receiving half of a combine with {@code returnHook}.
   *
   * @throws IllegalStateException if the combine has no {@code returnHook}
   */
  ReceiveHook hook();

  /** Completion; with {@code returnHook}, completion of the sending half. */
  Event event();
}
