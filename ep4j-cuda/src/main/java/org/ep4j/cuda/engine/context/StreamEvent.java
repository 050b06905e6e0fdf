package org.ep4j.cuda.engine.context;

import java.time.Duration;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.execution.Event;
import org.jspecify.annotations.Nullable;

/** The end of one operation. */
public final class StreamEvent implements Event {
  /** Longer than any operation may take: each has a deadline of its own. */
  private static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE);

  private final Completion completion;
  private final long ticket;
  private final String operation;
  private final long number;
  private final OperationEnd.@Nullable Outcome outcome;

  /**
   * @param number number of the operation, for messages; 0 if it has none
   */
  StreamEvent(
      Completion completion,
      long ticket,
      String operation,
      long number,
      OperationEnd.@Nullable Outcome outcome) {
    this.completion = completion;
    this.ticket = ticket;
    this.operation = operation;
    this.number = number;
    this.outcome = outcome;
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
    boolean ignored = await(FOREVER);
  }

  @Override
  public boolean await(Duration timeout) {
    if (!completion.awaitEvent(ticket, this, timeout)) {
      return false;
    }
    if (outcome != null) {
      outcome.require(ticket);
    }
    return true;
  }

  /** The operation, as messages name it. */
  @Override
  public String toString() {
    return name(operation, number);
  }

  /** An operation in messages. */
  static String name(String operation, long number) {
    return number == 0 ? operation : operation + " " + number;
  }
}
