package org.ep4j;

import org.ep4j.config.Layout;
import org.ep4j.error.ReceiveOverflowException;

/**
 * Routing state of a high-throughput dispatch. Its combine and cached dispatches need it. The
 * handle outlives the rows: any number of other operations may run before it is used.
 *
 * <p>Close a handle that is no longer needed: the buffer recycles closed handles, so a warm loop
 * allocates nothing. The garbage collector reclaims a handle that is never closed. Use of a closed
 * handle throws {@link IllegalStateException}.
 */
public interface DispatchHandle extends AutoCloseable {
  /** Row order of the dispatch. */
  Layout layout();

  /** Number of tokens T that this rank sent. */
  int tokens();

  /** Top-k width K of the routing. */
  int topK();

  /**
   * Rows this rank received (EXPERT_MAJOR: padding included).
   *
   * @throws ReceiveOverflowException never; {@link Dispatch#overflow()} reports an overflow
   */
  long rows();

  /** Returns the state for reuse. A second call has no effect. */
  @Override
  void close();
}
