package org.ep4j.cuda.engine.context;

import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.engine.throughput.ResultEnd;
import org.ep4j.execution.Event;
import org.jspecify.annotations.Nullable;

/**
 * The end of the operation whose result an object shows. Objects of results are reused, so this one
 * is too: an event is made only for a caller that asks for it. Used by one thread at a time.
 */
public final class OperationEnd implements ResultEnd {
  /** The outcome of an operation whose kernels have ended without an error. */
  public interface Outcome {
    /**
     * Throws if the operation of this ticket was refused. Does nothing if the object serves another
     * operation by now.
     */
    void require(long ticket);
  }

  private final Completion completion;
  private String operation = "";
  private long number;

  /** Ticket of the enqueued work; 0 if nothing needs a wait. */
  private long ticket;

  /** Whether results are in the order of the caller's stream, so that no thread waits for them. */
  private boolean inStreamOrder;

  private @Nullable Outcome outcome;
  private @Nullable Event event;

  public OperationEnd(Completion completion) {
    this.completion = completion;
  }

  /** Nothing is enqueued, or the work has ended without an error. */
  public void none() {
    ticket = 0;
    outcome = null;
    event = null;
  }

  /**
   * Work is enqueued.
   *
   * @param name the operation, for messages
   * @param ordinal its number, for messages; 0 if it has none
   * @param end its ticket; 0 if it has ended
   * @param callersStream whether it runs on the caller's stream
   * @param refusable its outcome, if the kernels may refuse it; a wait for the work throws that
   */
  public void enqueued(
      String name, long ordinal, long end, boolean callersStream, @Nullable Outcome refusable) {
    inStreamOrder = callersStream;
    operation = name;
    number = ordinal;
    ticket = end;
    outcome = refusable;
    event = null;
  }

  /** Waits for the work, unless it runs on the caller's stream. */
  @Override
  public void await() {
    if (!inStreamOrder) {
      awaitHere();
    }
  }

  /** Waits for the work; throws its error. Allocates nothing. */
  public void awaitHere() {
    if (ticket != 0) {
      completion.await(ticket, this);
      if (outcome != null) {
        outcome.require(ticket);
      }
    }
  }

  /** The event of the work. */
  @Override
  public Event event() {
    if (ticket == 0) {
      return Event.completed();
    }
    Event end = event;
    if (end == null) {
      end = new StreamEvent(completion, ticket, operation, number, outcome);
      event = end;
    }
    return end;
  }

  /** The operation, as messages name it. */
  @Override
  public String toString() {
    return StreamEvent.name(operation, number);
  }
}
