package org.ep4j.engine.throughput;

import org.ep4j.execution.Event;

/** The end of the operation that a result shows. */
public interface ResultEnd {
  /** Waits until the result can be read; throws the error of the operation. */
  void await();

  /** The event for callers. */
  Event event();
}
