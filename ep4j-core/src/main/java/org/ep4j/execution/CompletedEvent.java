package org.ep4j.execution;

import java.time.Duration;

/** The event of a synchronous operation. */
enum CompletedEvent implements Event {
  INSTANCE;

  @Override
  public boolean isDone() {
    return true;
  }

  @Override
  public void await() {
    // Nothing to wait for.
  }

  @Override
  public boolean await(Duration timeout) {
    return true;
  }

  @Override
  public String toString() {
    return "completed";
  }
}
