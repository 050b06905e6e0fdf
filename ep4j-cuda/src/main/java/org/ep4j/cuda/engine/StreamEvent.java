package org.ep4j.cuda.engine;

import java.time.Duration;
import org.ep4j.Event;

/** The end of one operation. */
final class StreamEvent implements Event {
  private final Completion completion;
  private final long ticket;
  private final String operation;

  StreamEvent(Completion completion, long ticket, String operation) {
    this.completion = completion;
    this.ticket = ticket;
    this.operation = operation;
  }

  /** Whether waiting for it on the host is unnecessary for operations of {@code other}. */
  boolean isOf(Completion other) {
    return completion == other;
  }

  @Override
  public boolean isDone() {
    return completion.reached(ticket);
  }

  @Override
  public void await() {
    completion.await(ticket, operation);
  }

  @Override
  public boolean await(Duration timeout) {
    return completion.await(ticket, operation, timeout);
  }
}
