package org.ep4j;

/** What a low-latency combine delivers. */
public interface LowLatencyCombine {
  /** Weighted sums BF16 [T, H]; with a hook only after the hook has run. */
  Tensor x();

  /**
   * The second half, with {@code returnHook}.
   *
   * @throws IllegalStateException if the combine was not started with {@code returnHook}
   */
  ReceiveHook hook();

  /** Completion (of the sending half, with {@code returnHook}). */
  Event event();
}
