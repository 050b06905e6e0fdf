package org.ep4j.cuda.engine.context;

import java.time.Duration;
import org.ep4j.Event;
import org.ep4j.cuda.engine.failure.Completion;

/** The end of one operation. */
public final class StreamEvent implements Event {
  private final Completion completion;
  private final long ticket;
  private final String operation;

  public StreamEvent(Completion completion, long ticket, String operation) {
    this.completion = completion;
    this.ticket = ticket;
    this.operation = operation;
  }

  /** Whether operations of {@code other} need not wait for this event on the host. */
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
