package org.ep4j;

/**
 * Routing state of a high-throughput dispatch, needed by its combine and by cached dispatches. It
 * outlives the rows: any number of other operations may run before it is used.
 *
 * <p>Close it when it is no longer needed: closed handles are recycled, which keeps a warm loop
 * free of allocation. A handle that is never closed is left to the garbage collector. Using a
 * closed handle is an {@link IllegalStateException}.
 */
public interface DispatchHandle extends AutoCloseable {
  /** Row order of the dispatch. */
  Layout layout();

  /** Tokens this rank sent. */
  int tokens();

  /** Top-k width of the routing. */
  int topK();

  /**
   * Rows this rank received (EXPERT_MAJOR: padding included).
   *
   * @throws ReceiveOverflowException never; an overflow is reported by {@link Dispatch#overflow()}
   */
  long rows();

  /** Returns the state for reuse. Closing twice is harmless. */
  @Override
  void close();
}
